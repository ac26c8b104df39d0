/*
 * test_library.c - every scenario with every failure. Each runs in a process of its own.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"
#include "layer.h"

/*
 * MHA_FAULT_SCENARIO has the name of the only scenario to run; MHA_FAULT_HALF, 0 or 1, takes
 * half of them, so that two processes share the work.
 */
static void drive(void (*with)(const struct scenario *), int index)
{
    const struct scenario *scenario = scenario_get(index);
    const char *wanted = getenv("MHA_FAULT_SCENARIO"), *half = getenv("MHA_FAULT_HALF");
    if (half && index / 2 % 2 != atoi(half)) {
        return;
    }
    if (!wanted || strcmp(wanted, scenario->name) == 0) {
        with(scenario);
    }
}

START_TEST(a_call_fails)
{
    drive(drive_calls, _i);
}
END_TEST

START_TEST(a_command_fails_after_it_was_accepted)
{
    drive(drive_late, _i);
}
END_TEST

START_TEST(an_allocation_fails)
{
    drive(drive_heap, _i);
}
END_TEST

/* A case for each kind of failure, so that CK_RUN_CASE takes one. */
static void add_case(Suite *suite, const char *name, const TTest *test)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test, 0, scenario_count());
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    /* The loader reads it with the first call of OpenCL. */
    setenv("OPENCL_LAYERS", MHA_FAULT_LAYER, 1);
    setenv("GPU_MHA_LOG", "off", 1);
    Suite *suite = suite_create("fault");
    add_case(suite, "calls", a_call_fails);
    add_case(suite, "late", a_command_fails_after_it_was_accepted);
    add_case(suite, "heap", an_allocation_fails);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
