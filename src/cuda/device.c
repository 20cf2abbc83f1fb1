/* SPDX-License-Identifier: MIT */
#include "cuda/device.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cuda/driver.h"

struct kn_device {
  const struct kn_driver *driver;
  CUdevice device;
  CUcontext context;
  int compute, num_sms, default_shared_bytes;
  char name[128];
};

struct kn_module {
  struct kn_device *device; /* outlives the module */
  CUlibrary library;
  size_t count;
  CUfunction functions[];
};

/* The compute capabilities that have targets. */
static const struct {
  int major, minor;
  const char *targets[3];
} capabilities[] = {
    {9, 0, {"sm_90a"}},
    {10, 0, {"sm_100a", "sm_100f"}},
    {10, 3, {"sm_103a", "sm_100f"}},
};

const char *const *kn_device_targets(int major, int minor) {
  for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; ++i) {
    if (capabilities[i].major == major && capabilities[i].minor == minor) {
      return capabilities[i].targets;
    }
  }
  return NULL;
}

static kiln_status read_facts(struct kn_device *device) {
  const struct kn_driver *d = device->driver;
  int major = 0, minor = 0;
  CUresult code = d->DeviceGetName(device->name, sizeof device->name, device->device);
  const struct {
    CUdevice_attribute attribute;
    int *value;
  } facts[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->num_sms},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &device->default_shared_bytes},
  };
  for (size_t i = 0; i < sizeof facts / sizeof *facts && code == CUDA_SUCCESS; ++i) {
    code = d->DeviceGetAttribute(facts[i].value, facts[i].attribute, device->device);
  }
  if (code != CUDA_SUCCESS) return kn_driver_fail(d, code, "the device's facts cannot be read");
  device->compute = major * 10 + minor;
  if (!kn_device_targets(major, minor)) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s has compute capability %d.%d; Kiln supports 9.0 (H100, H200), 10.0 (B200, "
                   "GB200) and 10.3 (B300)",
                   device->name, major, minor);
  }
  return KILN_OK;
}

kiln_status kn_device_open(int ordinal, struct kn_device **out) {
  const struct kn_driver *driver = NULL;
  int count = 0;
  kiln_status status = kn_driver_get(&driver);
  if (status != KILN_OK) return status;
  CUresult code = driver->DeviceGetCount(&count);
  if (code != CUDA_SUCCESS) return kn_driver_fail(driver, code, "devices cannot be counted");
  if (ordinal < 0 || ordinal >= count) {
    return kn_fail(KILN_E_CUDA, "device is %d; the driver has %d device%s", ordinal, count,
                   count == 1 ? "" : "s");
  }
  struct kn_device *device = calloc(1, sizeof *device);
  if (!device) return kn_fail(KILN_E_MEMORY, "device: out of memory");
  device->driver = driver;
  code = driver->DeviceGet(&device->device, ordinal);
  status = code == CUDA_SUCCESS ? read_facts(device)
                                : kn_driver_fail(driver, code, "the device cannot be opened");
  if (status == KILN_OK) {
    code = driver->DevicePrimaryCtxRetain(&device->context, device->device);
    if (code != CUDA_SUCCESS) {
      status = kn_driver_fail(driver, code, "the device's primary context cannot be retained");
    }
  }
  if (status != KILN_OK) {
    free(device);
    return status;
  }
  *out = device;
  return KILN_OK;
}

void kn_device_close(struct kn_device *device) {
  if (!device) return;
  (void)device->driver->DevicePrimaryCtxRelease(device->device);
  free(device);
}

int kn_device_num_sms(const struct kn_device *device) {
  return device->num_sms;
}
int kn_device_compute(const struct kn_device *device) {
  return device->compute;
}
const char *kn_device_name(const struct kn_device *device) {
  return device->name;
}

/* Makes the device's context current until leave(); the caller's own lies below it. */
static kiln_status enter(const struct kn_device *device) {
  CUresult code = device->driver->CtxPushCurrent(device->context);
  if (code == CUDA_SUCCESS) return KILN_OK;
  return kn_driver_fail(device->driver, code, "the device's context cannot be made current");
}

static void leave(const struct kn_device *device) {
  CUcontext context;
  (void)device->driver->CtxPopCurrent(&context);
}

/* Resolves one function for real and raises its shared memory limit where needed. */
static CUresult resolve(const struct kn_module *module, const char *name, int shared_bytes,
                        CUfunction *out) {
  const struct kn_driver *d = module->device->driver;
  CUkernel kernel = NULL;
  CUfunction function = NULL;
  int fixed = 0, limit = 0;
  CUresult code = d->LibraryGetKernel(&kernel, module->library, name);
  if (code == CUDA_SUCCESS) code = d->KernelGetFunction(&function, kernel);
  if (code == CUDA_SUCCESS) code = d->FuncLoad(function);
  if (code == CUDA_SUCCESS) {
    code = d->FuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  }
  if (code == CUDA_SUCCESS) {
    code = d->FuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
  }
  if (code == CUDA_SUCCESS && shared_bytes > limit &&
      fixed + shared_bytes > module->device->default_shared_bytes) {
    code = d->FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               shared_bytes);
  }
  if (code == CUDA_SUCCESS) *out = function;
  return code;
}

kiln_status kn_module_load(struct kn_device *device, const void *cubin, size_t length,
                           const char *const *names, const int *shared_bytes, size_t count,
                           struct kn_module **out) {
  const struct kn_driver *d = device->driver;
  (void)length; /* the driver reads the size from the ELF header */
  struct kn_module *module = calloc(1, sizeof *module + count * sizeof *module->functions);
  if (!module) return kn_fail(KILN_E_MEMORY, "module: out of memory");
  module->device = device;
  module->count = count;
  kiln_status status = enter(device);
  if (status != KILN_OK) {
    free(module);
    return status;
  }
  CUresult code = d->LibraryLoadData(&module->library, cubin, NULL, NULL, 0, NULL, NULL, 0);
  if (code != CUDA_SUCCESS) {
    status = kn_driver_fail(d, code, "a cubin cannot be loaded");
    module->library = NULL;
  }
  for (size_t i = 0; i < count && status == KILN_OK; ++i) {
    code = resolve(module, names[i], shared_bytes[i], &module->functions[i]);
    if (code != CUDA_SUCCESS) {
      status = kn_driver_fail(d, code, "a kernel cannot be made ready");
      kn_error_prefix("%s", names[i]);
    }
  }
  leave(device);
  if (status != KILN_OK) {
    kn_module_unload(module);
    return status;
  }
  *out = module;
  return KILN_OK;
}

void kn_module_unload(struct kn_module *module) {
  if (!module) return;
  if (module->library && enter(module->device) == KILN_OK) {
    (void)module->device->driver->LibraryUnload(module->library);
    leave(module->device);
  }
  free(module);
}

kiln_status kn_module_launch(const struct kn_module *module, size_t index, int64_t grid,
                             int threads, int shared_bytes, void *args, size_t args_bytes,
                             int use_pdl, void *stream) {
  const struct kn_driver *d = module->device->driver;
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {
      .gridDimX = (unsigned)grid,
      .gridDimY = 1,
      .gridDimZ = 1,
      .blockDimX = (unsigned)threads,
      .blockDimY = 1,
      .blockDimZ = 1,
      .sharedMemBytes = (unsigned)shared_bytes,
      .hStream = stream,
      .attrs = use_pdl ? &attribute : NULL,
      .numAttrs = use_pdl ? 1 : 0,
  };
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                   CU_LAUNCH_PARAM_END};
  kiln_status status = enter(module->device);
  if (status != KILN_OK) return status;
  CUresult code = d->LaunchKernelEx(&config, module->functions[index], NULL, extra);
  leave(module->device);
  if (code == CUDA_SUCCESS) return KILN_OK;
  return kn_driver_fail(d, code,
                        code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_CONTEXT
                            ? "the launch failed; a stream must be one of the device's primary "
                              "context, as those of the CUDA runtime are"
                            : "the launch failed");
}
