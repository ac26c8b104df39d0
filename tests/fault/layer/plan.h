/* plan.h - which call fails, inside the layer. From any thread. */
#ifndef MHA_TESTS_FAULT_PLAN_H
#define MHA_TESTS_FAULT_PLAN_H

#include "layer.h"

/* Counts the call. The code with which it must fail, or CL_SUCCESS. */
cl_int plan_next(enum fault_call call);

/* The same for a command that can fail late: then CL_SUCCESS, and the code in *late. */
cl_int plan_next_command(enum fault_call call, cl_int *late);

/* Reads the environment, and reports at exit. */
void plan_from_environment(void);

#endif
