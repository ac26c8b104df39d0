# Checks what lies where:  cmake -DROOT=<source tree> -P check_layout.cmake
#
# - The top level holds the entries listed here and dot-files, nothing else.
# - Kernels are .cl files: no C file below host/ holds OpenCL C in a string.

cmake_minimum_required(VERSION 3.20)

set(top_level host kernels include tests CMakeLists.txt README.md LICENSE CHANGELOG.md
    CMakePresets.json)
set(violations "")

# With Git, the files it tracks or would track: a build directory may have any name.
set(entries "")
find_program(GIT git)
if(GIT AND EXISTS "${ROOT}/.git")
    execute_process(
        COMMAND "${GIT}" -c core.quotePath=off -c "safe.directory=*"
            ls-files --cached --others --exclude-standard
        WORKING_DIRECTORY "${ROOT}" OUTPUT_VARIABLE output RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "git ls-files failed in ${ROOT}")
    endif()
    string(REGEX MATCHALL "[^\n]+" paths "${output}")
    foreach(path IN LISTS paths)
        string(REGEX REPLACE "/.*" "" entry "${path}")
        list(APPEND entries "${entry}")
    endforeach()
    list(REMOVE_DUPLICATES entries)
else()
    file(GLOB entries RELATIVE "${ROOT}" "${ROOT}/*")
    list(REMOVE_ITEM entries build)
endif()
foreach(entry IN LISTS entries)
    if(NOT entry IN_LIST top_level AND NOT entry MATCHES "^\\.")
        string(APPEND violations "\n  ${entry}: does not belong at the top level")
    endif()
endforeach()

file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/host/*.c" "${ROOT}/host/*.h")
foreach(file IN LISTS files)
    file(STRINGS "${ROOT}/${file}" found LIMIT_COUNT 1
        REGEX "\".*(__kernel|kernel void|get_global_id|get_local_id|get_group_id)[^\"]*\"")
    if(found)
        string(APPEND violations "\n  ${file}: holds a kernel in a string; it belongs in kernels/")
    endif()
endforeach()

if(violations)
    message(FATAL_ERROR "The tree breaks its layout:${violations}")
endif()
