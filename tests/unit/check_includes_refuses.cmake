# Gives check_includes.cmake a tree that follows the rules and then one that breaks each of them:
#   cmake -DCHECKER=<check_includes.cmake> -DWORK=<scratch directory>
#       -P check_includes_refuses.cmake

cmake_minimum_required(VERSION 3.20)

function(run_checker output result)
    execute_process(
        COMMAND "${CMAKE_COMMAND}" "-DROOT=${WORK}" -P "${CHECKER}"
        OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status)
    # Messages are wrapped where the terminal ends.
    string(REGEX REPLACE "[ \n]+" " " text "${out}${err}")
    set(${output} "${text}" PARENT_SCOPE)
    set(${result} "${status}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/host/core/size.h" "#include <stddef.h>\n")
file(WRITE "${WORK}/host/cl/program.h" "#include <CL/cl.h>\n#include \"core/size.h\"\n")
file(WRITE "${WORK}/host/blas/gemm.h" "#include <clblast_c.h>\n#include \"cl/program.h\"\n")
file(WRITE "${WORK}/host/attention/plan.h" "int a[2]; char c = ';';\n#include \"blas/gemm.h\"\n")
file(WRITE "${WORK}/host/attention/stages/fused.c"
    "#include \"attention/plan.h\"\n#include \"common/params.h\"\n")
file(WRITE "${WORK}/host/layer/layer.c" "#include \"attention/plan.h\"\n")
file(WRITE "${WORK}/host/cli/npy.h" "#include <gpu_mha/gpu_mha.h>\n#include <jansson.h>\n")
file(WRITE "${WORK}/host/cli/npy.c" "#include \"npy.h\"\n")
file(WRITE "${WORK}/host/examples/first.c" "#include <gpu_mha/gpu_mha.h>\n")
file(WRITE "${WORK}/kernels/common/params.h" "#include <stdint.h>\n")
file(WRITE "${WORK}/kernels/fused.cl" "#include \"common/params.h\"\n")
file(WRITE "${WORK}/tests/reference/reference.h" "#include <math.h>\n")
file(WRITE "${WORK}/tests/reference/reference.c" "#include \"reference.h\"\n")
run_checker(text status)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "A tree that follows the rules was refused: ${text}")
endif()

# file, line to add, words of the report
set(cases
    "host/core/bad.c|#include \"cl/program.h\"|core may not include cl"
    "host/core/bad.c|#include <CL/cl.h>|core knows nothing of OpenCL"
    "host/cl/bad.c|#include \"blas/gemm.h\"|cl may not include blas"
    "host/blas/bad.c|#include \"attention/plan.h\"|blas may not include attention"
    "host/blas/bad.c|#include \"../attention/plan.h\"|blas may not include attention"
    "host/attention/bad.c|#include \"cli/npy.h\"|the library may not include cli"
    "host/attention/bad.c|#include \"reference/reference.h\"|the library may not include reference"
    "host/attention/bad.c|#  include <clblast.h>|only blas may include CLBlast"
    "host/operators/bad.c|#include \"attention/plan.h\"|operators may not include attention"
    "host/layer/bad.c|#include <png.h>|only cli may include png.h"
    "host/layer/bad.c|#include \"nowhere.h\"|no such header"
    "host/cli/bad.c|#include \"core/size.h\"|cli may not include core"
    "host/cli/bad.c|#include \"common/params.h\"|cli may not include kernels"
    "host/examples/bad.c|#include \"cli/npy.h\"|examples may not include cli"
    "kernels/bad.cl|#include \"core/size.h\"|kernels may not include core"
    "kernels/bad.cl|#include <stddef.h>|a kernel may include common/ alone"
    "tests/reference/bad.c|#include \"core/size.h\"|reference may not include core"
    "tests/reference/bad.c|#include \"common/params.h\"|reference may not include kernels")
foreach(case IN LISTS cases)
    string(REPLACE "|" ";" case "${case}")
    list(GET case 0 file)
    list(GET case 1 line)
    list(GET case 2 words)
    file(WRITE "${WORK}/${file}" "\n${line}\n")
    run_checker(text status)
    file(REMOVE "${WORK}/${file}")
    string(FIND "${text}" "${file}:2:" at_place)
    string(FIND "${text}" "${words}" at_words)
    if(status EQUAL 0 OR at_place EQUAL -1 OR at_words EQUAL -1)
        message(FATAL_ERROR "${file} with ${line} should be refused as '${words}', got: ${text}")
    endif()
endforeach()
