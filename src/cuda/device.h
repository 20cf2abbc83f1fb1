/* SPDX-License-Identifier: MIT */
/* The CUDA driver through dlopen of libcuda.so.1: device facts, loading, launching. */
#ifndef KILN_CUDA_DEVICE_H
#define KILN_CUDA_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

struct kn_device;
struct kn_module;

/* The targets a compute capability may run, best first, NULL-terminated ("sm_100a", "sm_100f");
   NULL if it has none. */
const char *const *kn_device_targets(int major, int minor);

/* Opens device `ordinal`: loads the driver, retains the primary context, reads the facts. Leaves
   the caller's current context alone. KILN_E_CUDA without driver or device, KILN_E_UNSUPPORTED
   with name, capability and what is supported. */
kiln_status kn_device_open(int ordinal, struct kn_device **out);
void kn_device_close(struct kn_device *device);
int kn_device_num_sms(const struct kn_device *device);
int kn_device_compute(const struct kn_device *device); /* 90 */
const char *kn_device_name(const struct kn_device *device);

/* Loads a cubin and resolves `names`, really (no lazy loading is left), and raises the dynamic
   shared memory limit of each function to `shared_bytes` where that is above the default. */
kiln_status kn_module_load(struct kn_device *device, const void *cubin, size_t length,
                           const char *const *names, const int *shared_bytes, size_t count,
                           struct kn_module **out);
void kn_module_unload(struct kn_module *module);

/* Launches function `index` of the module on `stream`, in the device's primary context. */
kiln_status kn_module_launch(const struct kn_module *module, size_t index, int64_t grid,
                             int threads, int shared_bytes, void *args, size_t args_bytes,
                             int use_pdl, void *stream);

#endif
