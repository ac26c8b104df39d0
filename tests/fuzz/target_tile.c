/*
 * Shapes as text: GPU_MHA_TILE and the values of the tuning file. Input: the text.
 */
#include <string.h>

#include "attention/shape.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    char *text = fuzz_text(&bytes);
    struct mha_shape shape, again;
    struct mha_tile tile;
    char first[MHA_SHAPE_TEXT], second[MHA_SHAPE_TEXT];
    memset(&shape, 0x5a, sizeof shape);
    const gpu_mha_status status = mha_shape_parse("it", text, &shape);
    FUZZ_ASSERT(status == GPU_MHA_OK || status == GPU_MHA_INVALID);
    if (status == GPU_MHA_OK) {
        /* What was understood can be written, and is understood as the same. */
        mha_shape_text(&shape, first, sizeof first);
        FUZZ_ASSERT(mha_shape_parse("it", first, &again) == GPU_MHA_OK);
        mha_shape_text(&again, second, sizeof second);
        FUZZ_ASSERT(strcmp(first, second) == 0 && shape.path == again.path);
        FUZZ_ASSERT(mha_shape_keys(&shape) >= 4 && mha_shape_keys(&shape) <= 512);
        FUZZ_ASSERT(mha_shape_rows(&shape) >= (shape.path != MHA_PATH_DECODE) &&
                    mha_shape_rows(&shape) <= 1024);
        FUZZ_ASSERT(mha_shape_local_bytes(&shape, 16384) >= 0);
        FUZZ_ASSERT(shape.path == MHA_PATH_DECODE || mha_shape_row_pitch(&shape, 77) >= 77);
    } else {
        fuzz_check_sentence(status, "it");
        FUZZ_ASSERT(strstr(gpu_mha_last_error(), "must be") != NULL);
    }
    if (mha_tile_parse("it", text, &tile) == GPU_MHA_OK) {
        FUZZ_ASSERT(status == GPU_MHA_OK && tile.local == 0);
    }
    fuzz_environment("GPU_MHA_TILE", text);
    int given = 2;
    FUZZ_ASSERT(mha_shape_from_environment(&again, &given) ==
                (text[0] == '\0' ? GPU_MHA_OK : status));
    FUZZ_ASSERT(given == (text[0] != '\0'));
    free(text);
    return 0;
}
