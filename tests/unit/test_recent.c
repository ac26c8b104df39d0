/*
 * test_recent.c - what a context keeps: found by operation and key, the oldest making room. The
 * states are made up here.
 */
#include "cl/recent.h"

#include <check.h>
#include <stdlib.h>

static int destroyed[64], destroyed_count;

static void destroy(void *state)
{
    destroyed[destroyed_count++] = *(int *)state;
    free(state);
}

static const struct mha_operation apple = {"an apple", destroy}, pear = {"a pear", destroy};

/* Nothing of it is used but the list. */
static gpu_mha_context context;

static void *state_of(int number)
{
    int *state = malloc(sizeof *state);
    ck_assert_ptr_nonnull(state);
    *state = number;
    return state;
}

static void keep(const struct mha_operation *operation, int key, int number)
{
    ck_assert_int_eq(mha_recent_keep(&context, operation, &key, sizeof key, state_of(number)),
                     GPU_MHA_OK);
}

/* The number of the state that is found, 0 if none is. */
static int find(const struct mha_operation *operation, int key)
{
    const int *state = mha_recent_find(&context, operation, &key, sizeof key);
    return state != NULL ? *state : 0;
}

static void close_context(void)
{
    mha_recent_destroy(context.recent);
    context.recent = NULL;
}

START_TEST(a_state_is_found_by_operation_and_key)
{
    ck_assert_int_eq(find(&apple, 7), 0);
    keep(&apple, 7, 101);
    keep(&pear, 7, 102);
    keep(&apple, 8, 103);
    ck_assert_int_eq(find(&apple, 7), 101);
    ck_assert_int_eq(find(&pear, 7), 102);
    ck_assert_int_eq(find(&apple, 8), 103);
    ck_assert_int_eq(find(&pear, 8), 0);
    const int longer[2] = {7, 0};
    ck_assert_ptr_null(mha_recent_find(&context, &apple, longer, sizeof longer));
    ck_assert_ptr_null(mha_recent_find(&context, &apple, longer, 1));
    ck_assert_int_eq(destroyed_count, 0);
}
END_TEST

/* The key is the list's own: the caller's may change. */
START_TEST(a_key_is_copied)
{
    int key = 7;
    ck_assert_int_eq(mha_recent_keep(&context, &apple, &key, sizeof key, state_of(101)),
                     GPU_MHA_OK);
    key = 9;
    ck_assert_int_eq(find(&apple, 7), 101);
    ck_assert_int_eq(find(&apple, 9), 0);
}
END_TEST

START_TEST(the_one_used_longest_ago_makes_room)
{
    for (int n = 1; n <= MHA_RECENT_MAX; n++) {
        keep(n % 2 ? &apple : &pear, n, 100 + n);
    }
    ck_assert_int_eq(destroyed_count, 0);
    ck_assert_int_eq(find(&apple, 1), 101);
    ck_assert_int_eq(find(&apple, 3), 103);
    keep(&pear, 50, 150); /* instead of 2 */
    keep(&pear, 51, 151); /* instead of 4 */
    keep(&pear, 52, 152); /* instead of 5 */
    ck_assert_int_eq(destroyed_count, 3);
    ck_assert_int_eq(destroyed[0], 102);
    ck_assert_int_eq(destroyed[1], 104);
    ck_assert_int_eq(destroyed[2], 105);
    ck_assert_int_eq(find(&pear, 2), 0);
    ck_assert_int_eq(find(&apple, 1), 101);
    ck_assert_int_eq(find(&apple, 3), 103);
    ck_assert_int_eq(find(&pear, 50), 150);
}
END_TEST

START_TEST(all_are_destroyed_with_the_list)
{
    int sum = 0;
    for (int n = 1; n <= MHA_RECENT_MAX + 5; n++) {
        keep(&apple, n, n);
    }
    close_context();
    ck_assert_int_eq(destroyed_count, MHA_RECENT_MAX + 5);
    for (int n = 0; n < destroyed_count; n++) {
        sum += destroyed[n];
    }
    ck_assert_int_eq(sum, (MHA_RECENT_MAX + 5) * (MHA_RECENT_MAX + 6) / 2);
    mha_recent_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recent");
    TCase *tcase = tcase_create("recent");
    tcase_add_checked_fixture(tcase, NULL, close_context);
    tcase_add_test(tcase, a_state_is_found_by_operation_and_key);
    tcase_add_test(tcase, a_key_is_copied);
    tcase_add_test(tcase, the_one_used_longest_ago_makes_room);
    tcase_add_test(tcase, all_are_destroyed_with_the_list);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
