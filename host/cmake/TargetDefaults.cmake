# What every target of this project is compiled with.

set(sanitizers none address,undefined thread)
if(NOT GPU_MHA_SANITIZE IN_LIST sanitizers)
    message(FATAL_ERROR "GPU_MHA_SANITIZE is '${GPU_MHA_SANITIZE}'; "
        "it must be none, address,undefined or thread")
endif()

function(mha_target_defaults target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11
        C_STANDARD_REQUIRED ON
        C_EXTENSIONS OFF
        C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${target} PRIVATE
        _POSIX_C_SOURCE=200809L
        CL_TARGET_OPENCL_VERSION=120)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
        $<$<BOOL:${GPU_MHA_WERROR}>:-Werror>)
    if(NOT GPU_MHA_SANITIZE STREQUAL "none")
        set(flags -fsanitize=${GPU_MHA_SANITIZE} -fno-sanitize-recover=all)
        target_compile_options(${target} PRIVATE ${flags} -fno-omit-frame-pointer)
        target_link_options(${target} PRIVATE ${flags})
    endif()
endfunction()
