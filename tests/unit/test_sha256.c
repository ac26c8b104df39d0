/*
 * test_sha256.c - SHA-256 against the examples of FIPS 180-4 and the lengths around its padding.
 */
#include "core/sha256.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* `count` times `text`. The long messages' values are those of sha256sum. */
static const struct vector {
    const char *text;
    size_t count;
    const char *digest;
} vectors[] = {
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    {"a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
    {"a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
    {"a", 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
    {"a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
    {"a", 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
    {"a", 119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
    {"a", 120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
};
enum { VECTORS = sizeof vectors / sizeof vectors[0] };

START_TEST(digests_are_those_of_the_standard)
{
    const struct vector *v = &vectors[_i];
    size_t length = strlen(v->text);
    char *message = malloc(length * v->count + 1);
    ck_assert_ptr_nonnull(message);
    for (size_t i = 0; i < v->count; i++) {
        memcpy(message + i * length, v->text, length);
    }

    unsigned char digest[MHA_SHA256_BYTES];
    char text[MHA_SHA256_HEX];
    mha_sha256(message, length * v->count, digest);
    mha_sha256_text(digest, text);
    ck_assert_str_eq(text, v->digest);
    free(message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sha256");
    TCase *digest = tcase_create("digest");
    tcase_add_loop_test(digest, digests_are_those_of_the_standard, 0, VECTORS);
    suite_add_tcase(suite, digest);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
