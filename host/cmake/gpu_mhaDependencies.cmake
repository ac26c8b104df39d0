# The libraries that libgpu_mha links. Used by the build and, installed beside gpu_mhaConfig.cmake,
# by every consumer of the static library, so that both find them in the same way.
#
# Defines OpenCL::OpenCL, Threads::Threads and gpu_mha::clblast. Sets gpu_mha_CLBLAST_FOUND.

include(CMakeFindDependencyMacro)
find_dependency(OpenCL)
find_dependency(Threads)

if(NOT TARGET gpu_mha::clblast)
    # CLBlast 1.5 installs no version file: a version asked for here would never be found.
    find_package(CLBlast CONFIG QUIET)
    if(TARGET clblast)
        set(gpu_mha_clblast_link clblast)
    else()
        find_library(gpu_mha_CLBLAST_LIBRARY clblast)
        find_path(gpu_mha_CLBLAST_INCLUDE_DIR clblast_c.h)
        mark_as_advanced(gpu_mha_CLBLAST_LIBRARY gpu_mha_CLBLAST_INCLUDE_DIR)
        if(gpu_mha_CLBLAST_LIBRARY AND gpu_mha_CLBLAST_INCLUDE_DIR)
            set(gpu_mha_clblast_link "${gpu_mha_CLBLAST_LIBRARY}")
        endif()
    endif()
    if(gpu_mha_clblast_link)
        add_library(gpu_mha::clblast INTERFACE IMPORTED)
        # CLBlast's own target does not name OpenCL, which its header includes.
        set_target_properties(gpu_mha::clblast PROPERTIES
            INTERFACE_LINK_LIBRARIES "${gpu_mha_clblast_link};OpenCL::OpenCL")
        if(gpu_mha_CLBLAST_INCLUDE_DIR)
            set_target_properties(gpu_mha::clblast PROPERTIES
                INTERFACE_INCLUDE_DIRECTORIES "${gpu_mha_CLBLAST_INCLUDE_DIR}")
        endif()
    endif()
    unset(gpu_mha_clblast_link)
endif()

if(TARGET gpu_mha::clblast)
    set(gpu_mha_CLBLAST_FOUND TRUE)
else()
    set(gpu_mha_CLBLAST_FOUND FALSE)
endif()
