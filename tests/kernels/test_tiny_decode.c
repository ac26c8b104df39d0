/*
 * test_tiny_decode.c - the decode kernel at shapes that a simulator can bear: groups of heads, past
 * keys, tails of rows and of keys, every storage type, splits.
 */
#include "harness/attention_run.h"

#include "harness/assertions.h"

#include <stdlib.h>
#include <string.h>

/* Few queries: keys and values are read where they lie, past ones too, the tail of rows and keys.
 */
START_TEST(decoding)
{
    /* Oclgrind 21.10 loses track of what is initialised where a vector of 8 is halved. */
    const int narrow = getenv("OCLGRIND_UNINITIALIZED") != NULL;

    for (int n = 0; n < 4; n++) {
        struct attention_spec spec = {
            .desc = {.B = 2, .HKV = 1, .DK = 5, .DV = 3, .lse = 1, .method = GPU_MHA_FUSED},
            .key = ATTENTION_PADDED,
            .value = ATTENTION_BNHD,
            .output = ATTENTION_PADDED_BNHD};
        char plan[64];

        spec.seed = 3 + (uint64_t)n;
        spec.tile = n % 2 == 0 || narrow ? "0,4,2,2" : "0,8,2,2";
        spec.desc.H = 3;
        spec.desc.NQ = n % 2 + 1;
        spec.desc.NK = n < 2 ? 11 : 141;
        spec.desc.NP = n == 1 ? 6 : 0;
        spec.desc.DK = n == 3 ? 8 : 5;
        spec.desc.DV = n == 2 ? 9 : 3;
        spec.desc.causal = n % 2;
        spec.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
        spec.desc.key_lengths = n == 2 ? GPU_MHA_I64 : GPU_MHA_INDEX_NONE;
        spec.desc.key.type = spec.desc.past_key.type = (gpu_mha_type)(n % 3);
        spec.desc.value.type = spec.desc.past_value.type = (gpu_mha_type)((n + 1) % 3);
        spec.desc.sinks = n == 3;
        spec.fill = n == 1 ? ATTENTION_SPECIAL : spec.fill;
        if (n == 2) {
            spec.desc.mask.type = GPU_MHA_MASK_BOOL;
            spec.mask = (struct attention_mask){0xB, 1, 0.3};
        }
        attention_check(&spec, plan);
        ck_assert_msg(strncmp(plan, "decode", 6) == 0,
                      "the plan is \"%s\": the decode kernel was to run", plan);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tiny decode");
    TCase *tcase = tcase_create("decode");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_test(tcase, decoding);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
