/* SPDX-License-Identifier: MIT */
/* The driver's functions, resolved once from libcuda.so.1. */
#ifndef KILN_CUDA_DRIVER_H
#define KILN_CUDA_DRIVER_H

#include <cuda.h>

#include <kiln/kiln.h>

/* X(member, symbol in the library, arguments) */
#define KN_DRIVER_SYMBOLS(X)                                                                   \
  X(Init, "cuInit", (unsigned))                                                                \
  X(GetErrorName, "cuGetErrorName", (CUresult, const char **))                                 \
  X(GetErrorString, "cuGetErrorString", (CUresult, const char **))                             \
  X(DeviceGetCount, "cuDeviceGetCount", (int *))                                               \
  X(DeviceGet, "cuDeviceGet", (CUdevice *, int))                                               \
  X(DeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                                 \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, CUdevice_attribute, CUdevice))         \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))               \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                       \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext))                                        \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext *))                                        \
  X(LibraryLoadData, "cuLibraryLoadData",                                                      \
    (CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, \
     unsigned))                                                                                \
  X(LibraryUnload, "cuLibraryUnload", (CUlibrary))                                             \
  X(LibraryGetKernel, "cuLibraryGetKernel", (CUkernel *, CUlibrary, const char *))             \
  X(KernelGetFunction, "cuKernelGetFunction", (CUfunction *, CUkernel))                        \
  X(FuncLoad, "cuFuncLoad", (CUfunction))                                                      \
  X(FuncGetAttribute, "cuFuncGetAttribute", (int *, CUfunction_attribute, CUfunction))         \
  X(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction, CUfunction_attribute, int))           \
  X(LaunchKernelEx, "cuLaunchKernelEx", (const CUlaunchConfig *, CUfunction, void **, void **))

struct kn_driver {
#define X(member, symbol, arguments) CUresult(*member) arguments;
  KN_DRIVER_SYMBOLS(X)
#undef X
};

/* The driver, loaded and initialised on the first call; stays for the life of the process.
   KILN_E_CUDA where there is none. */
kiln_status kn_driver_get(const struct kn_driver **out);

/* KILN_E_CUDA with "what: CUDA_ERROR_NAME (text)" and the driver code. */
kiln_status kn_driver_fail(const struct kn_driver *driver, CUresult code, const char *what);

#endif
