# Checks which file includes which:  cmake -DROOT=<source tree> -P check_includes.cmake
#
# Inside the library an include may only point to the same module or to one below it:
#   layer -> attention, operators -> blas -> cl -> core
# The command sees the public header and itself, the examples the public header alone, the kernels
# kernels/common/, and the float64 reference itself and the public header. Everyone may include the
# public header and the C library; other libraries are named below, with the one module that may.
#
# So that a project header is always known by its name, it is included as "module/file.h", or as
# "file.h" from its own directory.

cmake_minimum_required(VERSION 3.20)

set(module_rank_core 0)
set(module_rank_cl 1)
set(module_rank_blas 2)
set(module_rank_attention 3)
set(module_rank_operators 3)
set(module_rank_layer 4)

set(violations "")

function(report file line rule)
    set(violations "${violations}\n  ${file}:${line}: ${rule}" PARENT_SCOPE)
endfunction()

# The module that an include of `name` in `file` reaches: the first directory below host/ or tests/,
# "kernels", "public" or "unknown".
function(resolve file name result)
    get_filename_component(directory "${file}" DIRECTORY)
    set(module unknown)
    if(name MATCHES "^gpu_mha/")
        set(module public)
    else()
        foreach(base "${directory}" host kernels tests)
            get_filename_component(path "${ROOT}/${base}/${name}" ABSOLUTE)
            if(EXISTS "${path}")
                file(RELATIVE_PATH path "${ROOT}" "${path}")
                if(path MATCHES "^kernels/")
                    set(module kernels)
                elseif(path MATCHES "^(host|tests)/([^/]+)/")
                    set(module "${CMAKE_MATCH_2}")
                endif()
                break()
            endif()
        endforeach()
    endif()
    set(${result} "${module}" PARENT_SCOPE)
endfunction()

# Which module of this project `from` may use. "" if `to` is allowed, else the rule.
function(rule_for from to result)
    set(rule "")
    if(to STREQUAL "unknown")
        set(rule "no such header below host/, kernels/ or beside the file")
    elseif(to STREQUAL "public" OR to STREQUAL from)
        if(from STREQUAL "kernels" AND to STREQUAL "public")
            set(rule "a kernel may include common/ alone")
        endif()
    elseif(DEFINED module_rank_${from})
        if(DEFINED module_rank_${to})
            if(NOT module_rank_${to} LESS module_rank_${from})
                set(rule "${from} may not include ${to}, which does not lie below it")
            endif()
        elseif(NOT to STREQUAL "kernels")
            set(rule "the library may not include ${to}")
        endif()
    else()
        set(rule "${from} may not include ${to}")
    endif()
    set(${result} "${rule}" PARENT_SCOPE)
endfunction()

# Which module may use a header of another library. kernels/common/params.h takes <stdint.h> where
# the host compiles it.
function(rule_for_system from name result)
    set(rule "")
    if(name MATCHES "^clblast" AND NOT from STREQUAL "blas")
        set(rule "only blas may include CLBlast")
    elseif(name MATCHES "^(jansson|png)" AND NOT from STREQUAL "cli")
        set(rule "only cli may include ${name}")
    elseif(name MATCHES "^CL/" AND from MATCHES "^(core|reference)$")
        set(rule "${from} knows nothing of OpenCL")
    elseif(from STREQUAL "kernels" AND NOT name STREQUAL "stdint.h")
        set(rule "a kernel may include common/ alone")
    endif()
    set(${result} "${rule}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE "${ROOT}"
    "${ROOT}/host/*.c" "${ROOT}/host/*.h" "${ROOT}/kernels/*.cl" "${ROOT}/kernels/*.h"
    "${ROOT}/tests/reference/*.c" "${ROOT}/tests/reference/*.h")
list(LENGTH files file_count)
if(file_count EQUAL 0)
    message(FATAL_ERROR "No source file below ${ROOT}")
endif()

set(include_pattern "^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]")
foreach(file IN LISTS files)
    if(file MATCHES "^(host|tests)/([^/]+)/")
        set(from "${CMAKE_MATCH_2}")
    else()
        set(from kernels)
    endif()

    # Brackets and semicolons would break CMake's lists; no include needs them.
    file(READ "${ROOT}/${file}" text)
    string(REGEX REPLACE "[][;]" " " text "${text}")
    string(REPLACE "\\" " " text "${text}")
    string(REPLACE "\n" ";" lines "${text}")
    set(number 0)
    foreach(line IN LISTS lines)
        math(EXPR number "${number} + 1")
        if(line MATCHES "${include_pattern}")
            set(delimiter "${CMAKE_MATCH_1}")
            set(name "${CMAKE_MATCH_2}")
            if(delimiter STREQUAL "<" AND NOT name MATCHES "^gpu_mha/")
                rule_for_system("${from}" "${name}" rule)
            else()
                resolve("${file}" "${name}" to)
                rule_for("${from}" "${to}" rule)
            endif()
            if(rule)
                report("${file}" ${number} "${name}: ${rule}")
            endif()
        endif()
    endforeach()
endforeach()

if(violations)
    message(FATAL_ERROR "Includes that break a rule:${violations}")
endif()
message(STATUS "${file_count} files checked")
