# Removes what the last installation from this build tree put in place, then the directories named
# gpu_mha that are left empty. DESTDIR is honoured as in the installation.
#
#   cmake -DMANIFEST=<build>/install_manifest.txt -P uninstall.cmake

cmake_minimum_required(VERSION 3.20)

if(NOT EXISTS "${MANIFEST}")
    message(FATAL_ERROR "Nothing to uninstall: ${MANIFEST} does not exist")
endif()

file(STRINGS "${MANIFEST}" paths)
set(directories "")
foreach(path IN LISTS paths)
    set(installed "$ENV{DESTDIR}${path}")
    if(EXISTS "${installed}" OR IS_SYMLINK "${installed}")
        message(STATUS "Removing ${installed}")
        file(REMOVE "${installed}")
        if(EXISTS "${installed}" OR IS_SYMLINK "${installed}")
            message(FATAL_ERROR "Cannot remove ${installed}")
        endif()
    else()
        message(STATUS "Not there: ${installed}")
    endif()
    get_filename_component(directory "${installed}" DIRECTORY)
    while(directory MATCHES "/gpu_mha(/|$)")
        list(APPEND directories "${directory}")
        get_filename_component(directory "${directory}" DIRECTORY)
    endwhile()
endforeach()

# Longest first, so that a directory is empty by the time its turn comes.
list(REMOVE_DUPLICATES directories)
list(SORT directories ORDER DESCENDING)
foreach(directory IN LISTS directories)
    file(GLOB content LIST_DIRECTORIES true "${directory}/*" "${directory}/.*")
    if(IS_DIRECTORY "${directory}" AND NOT content)
        file(REMOVE_RECURSE "${directory}")
    endif()
endforeach()
