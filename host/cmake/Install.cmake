# Install, package files and uninstall.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gpu_mha")
set(generated_dir "${PROJECT_BINARY_DIR}/package")

install(FILES
    "${PROJECT_SOURCE_DIR}/include/gpu_mha/gpu_mha.h"
    "${PROJECT_SOURCE_DIR}/include/gpu_mha/gpu_mha_status.h"
    "${PROJECT_BINARY_DIR}/include/gpu_mha/version.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gpu_mha")

# Two export sets: whoever uses the shared library alone needs no CLBlast.
install(TARGETS gpu_mha EXPORT gpu_mha_shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS gpu_mha_static EXPORT gpu_mha_static ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(form shared static)
    install(EXPORT gpu_mha_${form}
        FILE gpu_mha_${form}Targets.cmake
        NAMESPACE gpu_mha::
        DESTINATION "${package_dir}")
endforeach()

if(GPU_MHA_BUILD_CLI)
    # The command finds the library beside it, wherever both are installed.
    file(RELATIVE_PATH bin_to_lib
        "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(gpu-mha PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS gpu-mha RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/data/minilm"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/gpu_mha")
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/gpu_mhaConfig.cmake.in"
    "${generated_dir}/gpu_mhaConfig.cmake"
    INSTALL_DESTINATION "${package_dir}"
    NO_SET_AND_CHECK_MACRO)
# Until 1.0 a minor version may change the ABI.
write_basic_package_version_file("${generated_dir}/gpu_mhaConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${generated_dir}/gpu_mhaConfig.cmake"
    "${generated_dir}/gpu_mhaConfigVersion.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/gpu_mhaDependencies.cmake"
    DESTINATION "${package_dir}")

# The .pc file finds its prefix from where it lies: `cmake --install --prefix` may choose another
# one than the configuration did.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH pc_to_prefix
        "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
    string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
    set(PC_PREFIX "\${pcfiledir}/${pc_to_prefix}")
endif()
foreach(directory LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${directory}}")
        set(PC_${directory} "${CMAKE_INSTALL_${directory}}")
    else()
        set(PC_${directory} "\${prefix}/${CMAKE_INSTALL_${directory}}")
    endif()
endforeach()
configure_file("${CMAKE_CURRENT_LIST_DIR}/gpu_mha.pc.in" "${generated_dir}/gpu_mha.pc" @ONLY)
install(FILES "${generated_dir}/gpu_mha.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(GPU_MHA_TOP_LEVEL)
    add_custom_target(uninstall
        COMMAND "${CMAKE_COMMAND}" "-DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt"
            -P "${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake"
        COMMENT "Removing the installed files"
        VERBATIM)
endif()
