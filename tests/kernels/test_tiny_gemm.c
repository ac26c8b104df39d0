/*
 * test_tiny_gemm.c - the kernels of gemm.cl at shapes that a simulator can bear: tails of rows, of
 * columns and of K, parts of K, blocks of tiles, with W packed and where it lies.
 */
#include "harness/assertions.h"
#include "harness/product.h"

#include <stdlib.h>

static const struct product_shape shapes[] = {
    {1, 1, 1, 0, 1},    {2, 13, 9, 0, 0},  {4, 3, 517, 0, 1}, {5, 9, 6, 0, 1},
    {27, 41, 11, 0, 0}, {9, 7, 259, 0, 1}, {6, 5, 530, 0, 1},
};

START_TEST(products)
{
    static const char *const tiles[] = {"4,4,2,2", "6,4,1,2"};
    ck_assert_int_eq(setenv("GPU_MHA_TILE", tiles[_i % 2], 1), 0);
    product_try(&shapes[_i / 2], &mha_gemm_tile, product_ordered, NULL, 400 + (uint64_t)_i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tiny gemm");
    TCase *tests = tcase_create("gemm");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, product_open, product_close);
    tcase_add_loop_test(tests, products, 0, 2 * (int)(sizeof shapes / sizeof shapes[0]));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
