/*
 * Devices as their drivers describe them. Data only. What the library is built for on each is its
 * own choice; `label` is what tables call it.
 */
#ifndef MHA_OFFLINE_DEVICES_H
#define MHA_OFFLINE_DEVICES_H

#include "driver.h"

#define GIB ((cl_ulong)1 << 30)
#define KIB ((cl_ulong)1 << 10)

#define NVIDIA_WORDS                                                                               \
    "cl_khr_global_int32_base_atomics cl_khr_local_int32_base_atomics cl_khr_fp64 "                \
    "cl_khr_byte_addressable_store cl_khr_icd cl_nv_compiler_options cl_nv_device_attribute_query"
#define AMD_WORDS                                                                                  \
    "cl_khr_fp64 cl_khr_fp16 cl_khr_byte_addressable_store cl_khr_subgroups "                      \
    "cl_amd_device_attribute_query cl_amd_media_ops"
#define INTEL_WORDS                                                                                \
    "cl_khr_byte_addressable_store cl_khr_fp16 cl_khr_subgroups cl_intel_subgroups "               \
    "cl_intel_required_subgroup_size cl_intel_subgroups_short cl_khr_il_program"

static const struct driver_device offline_devices[] = {
    {"sm_80", "NVIDIA A100-SXM4-40GB", "NVIDIA Corporation", "OpenCL 3.0 CUDA", NVIDIA_WORDS,
     0x10de, CL_DEVICE_TYPE_GPU, 108, 1, 32, 1024, 48 * KIB, 40 * GIB, CL_LOCAL, CL_FALSE, CL_TRUE},
    {"sm_90", "NVIDIA H100 80GB HBM3", "NVIDIA Corporation", "OpenCL 3.0 CUDA", NVIDIA_WORDS,
     0x10de, CL_DEVICE_TYPE_GPU, 132, 1, 32, 1024, 48 * KIB, 80 * GIB, CL_LOCAL, CL_FALSE, CL_TRUE},
    {"gfx90a", "gfx90a:sramecc+:xnack-", "Advanced Micro Devices, Inc.", "OpenCL 2.0 ", AMD_WORDS,
     0x1002, CL_DEVICE_TYPE_GPU, 104, 1, 64, 256, 64 * KIB, 64 * GIB, CL_LOCAL, CL_FALSE, CL_TRUE},
    {"gfx1030", "gfx1030", "Advanced Micro Devices, Inc.", "OpenCL 2.0 ", AMD_WORDS, 0x1002,
     CL_DEVICE_TYPE_GPU, 36, 1, 32, 256, 64 * KIB, 16 * GIB, CL_LOCAL, CL_FALSE, CL_TRUE},
    {"skl", "Intel(R) HD Graphics 530", "Intel(R) Corporation", "OpenCL 3.0 NEO ", INTEL_WORDS,
     0x8086, CL_DEVICE_TYPE_GPU, 24, 1, 32, 256, 64 * KIB, 12 * GIB, CL_LOCAL, CL_TRUE, CL_TRUE},
    {"dg2", "Intel(R) Arc(TM) A770 Graphics", "Intel(R) Corporation", "OpenCL 3.0 NEO ",
     INTEL_WORDS, 0x8086, CL_DEVICE_TYPE_GPU, 512, 1, 32, 1024, 64 * KIB, 16 * GIB, CL_LOCAL,
     CL_FALSE, CL_TRUE},
    {"pvc", "Intel(R) Data Center GPU Max 1100", "Intel(R) Corporation", "OpenCL 3.0 NEO ",
     INTEL_WORDS, 0x8086, CL_DEVICE_TYPE_GPU, 448, 1, 32, 1024, 128 * KIB, 48 * GIB, CL_LOCAL,
     CL_FALSE, CL_TRUE},
    {"adreno", "QUALCOMM Adreno(TM)", "QUALCOMM", "OpenCL 2.0 Adreno(TM) 640",
     "cl_khr_byte_addressable_store cl_khr_fp16 cl_qcom_subgroup_shuffle cl_khr_subgroups", 0x5143,
     CL_DEVICE_TYPE_GPU, 2, 1, 64, 1024, 32 * KIB, 3 * GIB, CL_LOCAL, CL_TRUE, CL_TRUE},
    {"mali", "Mali-G78", "ARM", "OpenCL 2.1 v1.r26p0",
     "cl_khr_byte_addressable_store cl_khr_fp16 cl_khr_subgroups", 0x90000000, CL_DEVICE_TYPE_GPU,
     20, 4, 16, 512, 32 * KIB, 7 * GIB, CL_GLOBAL, CL_TRUE, CL_TRUE},
    {"unknown-gpu", "A GPU", "A maker", "OpenCL 1.2 ", "cl_khr_byte_addressable_store", 0x1234,
     CL_DEVICE_TYPE_GPU, 8, 1, 16, 128, 16 * KIB, 2 * GIB, CL_LOCAL, CL_FALSE, CL_FALSE},
    {"llvmpipe", "llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa/X.org", "OpenCL 3.0 ",
     "cl_khr_byte_addressable_store", 0, CL_DEVICE_TYPE_CPU, 8, 1, 32, 1024, 32 * KIB, 8 * GIB,
     CL_GLOBAL, CL_TRUE, CL_FALSE},
    {"cpu-512-bit", "pthread-skylake-avx512", "GenuineIntel", "OpenCL 3.0 PoCL", "cl_khr_fp64",
     0x8086, CL_DEVICE_TYPE_CPU, 8, 16, 8, 4096, 1024 * KIB, 16 * GIB, CL_GLOBAL, CL_TRUE, CL_TRUE},
    {"cpu-256-bit", "pthread-haswell", "GenuineIntel", "OpenCL 3.0 PoCL", "cl_khr_fp64", 0x8086,
     CL_DEVICE_TYPE_CPU, 8, 8, 8, 4096, 256 * KIB, 16 * GIB, CL_GLOBAL, CL_TRUE, CL_TRUE},
    {"cpu-128-bit", "pthread-cortex-a72", "ARM", "OpenCL 3.0 PoCL", "cl_khr_fp64", 0x13b5,
     CL_DEVICE_TYPE_CPU, 4, 4, 8, 4096, 256 * KIB, 4 * GIB, CL_GLOBAL, CL_TRUE, CL_TRUE},
};
enum { OFFLINE_DEVICE_COUNT = sizeof offline_devices / sizeof offline_devices[0] };

#endif
