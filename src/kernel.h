/* SPDX-License-Identifier: MIT */
/* Kernel handles: immutable once made, counted, valid beyond their context. */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

#include <stdatomic.h>

#include "cuda/device.h"
#include "pipeline.h"

/* What kernels keep of their context: specs and the device. */
struct kn_core {
  atomic_int refs;
  struct kn_library library;
  struct kn_device *device; /* or NULL */
};
struct kn_core *kn_core_ref(struct kn_core *core);
void kn_core_unref(struct kn_core *core);

/* Takes over `built`; loads it where the core has a device and `load` is set. */
kiln_status kn_kernel_make(struct kn_core *core, struct kn_built *built, bool load,
                           kiln_kernel **out);

#endif
