# Gives check_layout.cmake a tree that follows the rules and then ones that break them:
#   cmake -DCHECKER=<check_layout.cmake> -DWORK=<scratch directory> -P check_layout_refuses.cmake

cmake_minimum_required(VERSION 3.20)

function(expect verdict words)
    execute_process(
        COMMAND "${CMAKE_COMMAND}" "-DROOT=${WORK}" -P "${CHECKER}"
        OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status)
    # Messages are wrapped where the terminal ends.
    string(REGEX REPLACE "[ \n]+" " " text "${out}${err}")
    if(verdict STREQUAL "accepted" AND NOT status EQUAL 0)
        message(FATAL_ERROR "A tree that follows the rules was refused: ${text}")
    endif()
    string(FIND "${text}" "${words}" position)
    if(verdict STREQUAL "refused" AND (status EQUAL 0 OR position EQUAL -1))
        message(FATAL_ERROR "Should be refused as '${words}', got: ${text}")
    endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
foreach(file CMakeLists.txt README.md LICENSE .gitignore kernels/fused.cl include/gpu_mha/gpu_mha.h
        build/CMakeCache.txt)
    file(WRITE "${WORK}/${file}" "\n")
endforeach()
file(WRITE "${WORK}/host/a.c" "/* runs a __kernel */\nputs(\"no kernel here\");\n")
expect(accepted "")

file(WRITE "${WORK}/Makefile" "\n")
expect(refused "Makefile: does not belong at the top level")
file(REMOVE "${WORK}/Makefile")

file(WRITE "${WORK}/docs/index.md" "\n")
expect(refused "docs: does not belong at the top level")
file(REMOVE_RECURSE "${WORK}/docs")

file(WRITE "${WORK}/host/b.c" "static const char *s = \"__kernel void f(__global float *x)\"\n")
expect(refused "host/b.c: holds a kernel in a string")
file(REMOVE "${WORK}/host/b.c")
expect(accepted "")
