/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A kernel's functions: for each step, its variants, one after the other. */
enum { MAX_FUNCTIONS = 32 };

struct kiln_kernel {
  atomic_int refs;
  struct kn_core *core;
  struct kn_built built;
  struct kn_module *module;         /* NULL: built only */
  int first_function[KN_MAX_STEPS]; /* of each step */
};

struct kn_core *kn_core_ref(struct kn_core *core) {
  atomic_fetch_add(&core->refs, 1);
  return core;
}

void kn_core_unref(struct kn_core *core) {
  if (!core || atomic_fetch_sub(&core->refs, 1) != 1) return;
  kn_library_release(&core->library);
  kn_device_close(core->device);
  free(core);
}

static kiln_status load(kiln_kernel *kernel) {
  const struct kn_plan *plan = kernel->built.plan;
  const char *names[MAX_FUNCTIONS];
  int shared_bytes[MAX_FUNCTIONS];
  size_t count = 0;
  for (size_t i = 0; i < plan->num_steps; ++i) {
    kernel->first_function[i] = (int)count;
    for (size_t j = 0; j < plan->steps[i].num_variants; ++j) {
      if (count == MAX_FUNCTIONS) {
        return kn_fail(KILN_E_SPEC, "%s: more than %d variants", plan->spec->name, MAX_FUNCTIONS);
      }
      names[count] = plan->steps[i].variants[j].function;
      shared_bytes[count++] = plan->steps[i].shared_bytes;
    }
  }
  kiln_status status =
      kn_module_load(kernel->core->device, kernel->built.cubin, kernel->built.cubin_bytes, names,
                     shared_bytes, count, &kernel->module);
  if (status != KILN_OK) kn_error_prefix("%s", plan->spec->name);
  return status;
}

kiln_status kn_kernel_make(struct kn_core *core, struct kn_built *built, bool wants_load,
                           kiln_kernel **out) {
  kiln_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return kn_fail(KILN_E_MEMORY, "out of memory for a kernel");
  atomic_init(&kernel->refs, 1);
  kernel->core = kn_core_ref(core);
  kernel->built = *built;
  *built = (struct kn_built){0};
  kiln_status status = core->device && wants_load ? load(kernel) : KILN_OK;
  if (status != KILN_OK) {
    kiln_kernel_unref(kernel);
    return status;
  }
  *out = kernel;
  return KILN_OK;
}

kiln_kernel *kiln_kernel_ref(kiln_kernel *kernel) {
  if (kernel) atomic_fetch_add(&kernel->refs, 1);
  return kernel;
}

void kiln_kernel_unref(kiln_kernel *kernel) {
  if (!kernel || atomic_fetch_sub(&kernel->refs, 1) != 1) return;
  kn_module_unload(kernel->module);
  kn_built_release(&kernel->built);
  kn_core_unref(kernel->core);
  free(kernel);
}

/* ---- launching ---- */

static kiln_status check_launch(const kiln_kernel *kernel, const kiln_arg *args, size_t num_args,
                                const kiln_launch_options *options) {
  if (!kernel) return kn_fail(KILN_E_ARGUMENT, "kernel is NULL");
  const char *op = kernel->built.plan->spec->name;
  if (!args && num_args) return kn_fail(KILN_E_ARGUMENT, "%s: args is NULL", op);
  if (options && options->size != sizeof *options) {
    return kn_fail(KILN_E_ARGUMENT,
                   "%s: launch options have size %zu; set them by "
                   "kiln_launch_options_init",
                   op, options->size);
  }
  if (options && options->num_sms < 0) {
    return kn_fail(KILN_E_ARGUMENT, "%s: num_sms is %d; allowed is 0 (all) and above", op,
                   options->num_sms);
  }
  return KILN_OK;
}

/* The SMs that grids of persistent kernels are made for. */
static int num_sms_of(const kiln_kernel *kernel, const kiln_launch_options *options) {
  int all = kernel->core->device ? kn_device_num_sms(kernel->core->device) : 1;
  int cap = options && options->num_sms ? options->num_sms : all;
  return cap < all ? cap : all;
}

static kiln_status check_workspace(const kiln_kernel *kernel, const struct kn_bound *bound,
                                   const kiln_launch_options *options) {
  const char *op = kernel->built.plan->spec->name;
  uint64_t given = options ? options->workspace_bytes : 0;
  if (!bound->workspace_bytes) return KILN_OK;
  if (given < bound->workspace_bytes || !options->workspace) {
    return kn_fail(KILN_E_ARGUMENT,
                   "%s: the workspace has %" PRIu64
                   " bytes; this launch needs "
                   "%" PRIu64,
                   op, given, bound->workspace_bytes);
  }
  if ((uintptr_t)options->workspace % 256) {
    return kn_fail(KILN_E_ARGUMENT, "%s: the workspace is at %p; it must be aligned to 256 bytes",
                   op, options->workspace);
  }
  return KILN_OK;
}

kiln_status kiln_launch(const kiln_kernel *kernel, const kiln_arg *args, size_t num_args,
                        const kiln_launch_options *options, void *stream) {
  struct kn_bound bound;
  kn_error_clear();
  memset(bound.dims, 0, sizeof bound.dims);
  kiln_status status = check_launch(kernel, args, num_args, options);
  if (status != KILN_OK) return status;
  const struct kn_plan *plan = kernel->built.plan;
  status = kn_plan_bind(plan, args, num_args, num_sms_of(kernel, options), &bound);
  if (status == KILN_OK) status = check_workspace(kernel, &bound, options);
  if (status != KILN_OK) return status;
  if (!kernel->module && bound.num_steps) {
    return kn_fail(KILN_E_CUDA,
                   "%s: this kernel was built for %s without a device; it cannot be "
                   "launched",
                   plan->spec->name, plan->limits->target);
  }
  if (plan->workspace && options) {
    bound.args[plan->num_slots - 1] = (uint64_t)(uintptr_t)options->workspace;
  }
  for (int i = 0; i < bound.num_steps && status == KILN_OK; ++i) {
    const struct kn_bound_step *step = &bound.steps[i];
    size_t function = (size_t)(kernel->first_function[step->step] + step->variant);
    status = kn_module_launch(kernel->module, function, step->grid, step->threads,
                              step->shared_bytes, bound.args, plan->num_slots * 8,
                              i > 0 || (options && options->use_pdl), /* steps overlap each other */
                              stream);
    if (status != KILN_OK) kn_error_prefix("%s", plan->spec->name);
  }
  return status;
}

kiln_status kiln_workspace_bytes(const kiln_kernel *kernel, const kiln_arg *args, size_t num_args,
                                 const kiln_launch_options *options, uint64_t *out_bytes) {
  struct kn_bound bound;
  kn_error_clear();
  memset(bound.dims, 0, sizeof bound.dims);
  kiln_status status = check_launch(kernel, args, num_args, options);
  if (status == KILN_OK && !out_bytes) status = kn_fail(KILN_E_ARGUMENT, "out_bytes is NULL");
  if (status == KILN_OK) {
    status = kn_plan_bind(kernel->built.plan, args, num_args, num_sms_of(kernel, options), &bound);
  }
  if (status == KILN_OK) *out_bytes = bound.workspace_bytes;
  return status;
}

/* ---- describing ---- */

size_t kiln_kernel_num_args(const kiln_kernel *kernel) {
  const struct kn_spec *spec = kernel ? kernel->built.plan->spec : NULL;
  return spec ? spec->num_tensors + spec->num_scalars : 0;
}

size_t kiln_kernel_num_dims(const kiln_kernel *kernel) {
  return kernel ? kernel->built.plan->num_dims : 0;
}

const char *kiln_kernel_dim_name(const kiln_kernel *kernel, size_t index) {
  return index < kiln_kernel_num_dims(kernel) ? kernel->built.plan->dims[index] : NULL;
}

kiln_status kiln_kernel_arg_info(const kiln_kernel *kernel, size_t index, const kiln_dim *dims,
                                 size_t num_dims, kiln_arg_info *info) {
  kn_error_clear();
  if (!kernel || !info || (!dims && num_dims)) {
    return kn_fail(KILN_E_ARGUMENT, "kernel, info or dims is NULL");
  }
  if (info->size != sizeof *info) {
    return kn_fail(KILN_E_ARGUMENT, "info has size %zu; set it by kiln_arg_info_init", info->size);
  }
  return kn_plan_arg_info(kernel->built.plan, index, dims, num_dims, info);
}

kiln_status kiln_kernel_bytes(const kiln_kernel *kernel, const kiln_dim *dims, size_t num_dims,
                              uint64_t *out_bytes) {
  kn_error_clear();
  if (!kernel || !out_bytes || (!dims && num_dims)) {
    return kn_fail(KILN_E_ARGUMENT, "kernel, out_bytes or dims is NULL");
  }
  return kn_plan_bytes(kernel->built.plan, dims, num_dims, out_bytes);
}

static void append_functions(struct kn_text *out, const struct kn_built *built) {
  struct kn_function_facts facts[MAX_FUNCTIONS];
  size_t count = 0;
  if (kn_cubin_facts(built->cubin, built->cubin_bytes, facts, MAX_FUNCTIONS, &count) != KILN_OK) {
    kn_error_clear();
  }
  for (size_t i = 0; i < count && i < MAX_FUNCTIONS; ++i) {
    kn_text_printf(out,
                   "%s{\"name\": \"%s\", \"registers\": %d, \"spill_bytes\": %d, "
                   "\"shared_bytes\": %d, \"max_threads\": %d}",
                   i ? ", " : "", facts[i].name, facts[i].registers, facts[i].stack_bytes,
                   facts[i].shared_bytes, facts[i].max_threads);
  }
}

static void append_steps(struct kn_text *out, const struct kn_plan *plan) {
  for (size_t i = 0; i < plan->num_steps; ++i) {
    const struct kn_plan_step *step = &plan->steps[i];
    kn_text_printf(out, "%s{\"name\": \"%s\", \"threads\": %d, \"shared_bytes\": %d, \"grid\": ",
                   i ? ", " : "", step->name, step->threads, step->shared_bytes);
    kn_text_json_string(out, step->grid->text ? step->grid->text : "");
    kn_text_append(out, ", \"variants\": [");
    for (size_t j = 0; j < step->num_variants; ++j) {
      kn_text_printf(out, "%s\"%s\"", j ? ", " : "", step->variants[j].function);
    }
    kn_text_append(out, "]}");
  }
}

static void append_params(struct kn_text *out, const struct kn_plan *plan) {
  for (size_t i = 0; i < plan->spec->num_params; ++i) {
    const struct kn_value *value = &plan->params[i];
    kn_text_printf(out, "%s\"%s\": ", i ? ", " : "", plan->spec->params[i].name);
    switch (value->type) {
      case KN_VALUE_INT:
        kn_text_printf(out, "%" PRId64, value->number);
        break;
      case KN_VALUE_BOOL:
        kn_text_append(out, value->number ? "true" : "false");
        break;
      case KN_VALUE_DTYPE:
        kn_text_json_string(out, kiln_dtype_name((kiln_dtype)value->number));
        break;
      case KN_VALUE_WORD:
        kn_text_json_string(out, value->word);
        break;
    }
  }
}

/* compile_us as the entry's facts tell it, so that a hit knows what it saved. */
static double compile_ms(const struct kn_built *built) {
  const char *at = built->facts ? strstr(built->facts, "\"compile_us\": ") : NULL;
  return at ? (double)strtoull(at + strlen("\"compile_us\": "), NULL, 10) / 1000 : 0;
}

static void append_kernel(struct kn_text *out, const struct kn_built *built) {
  static const char *const origins[] = {"memory", "disk", "compiler"};
  const struct kn_plan *plan = built->plan;
  kn_text_append(out, "{\"operator\": ");
  kn_text_json_string(out, plan->spec->name);
  kn_text_append(out, ", \"canonical\": ");
  kn_text_json_string(out, plan->canonical);
  kn_text_printf(
      out,
      ", \"template\": \"%s\", \"target\": \"%s\", \"key\": \"%s\", \"origin\": \"%s\", "
      "\"compile_ms\": %.3f, \"emit_us\": %" PRIu64
      ", \"nvrtc_id\": \"%s\", \"source_bytes\": %zu, \"cubin_bytes\": %zu, \"params\": {",
      plan->template_path, plan->limits->target, built->key, origins[built->origin],
      compile_ms(built), built->emit_us, built->nvrtc_id, built->source_bytes, built->cubin_bytes);
  append_params(out, plan);
  kn_text_append(out, "}, ");
  if (plan->row_held) kn_text_printf(out, "\"row_held\": \"%s\", ", plan->row_held);
  kn_text_append(out, "\"functions\": [");
  append_functions(out, built);
  kn_text_append(out, "], \"steps\": [");
  append_steps(out, plan);
  kn_text_append(out, "]}");
}

kiln_status kiln_kernel_text(const kiln_kernel *kernel, kiln_text what, char **out_text) {
  struct kn_text text = {0};
  kn_error_clear();
  if (!kernel || !out_text) return kn_fail(KILN_E_ARGUMENT, "kernel or out_text is NULL");
  if (what == KILN_TEXT_KERNEL) {
    append_kernel(&text, &kernel->built);
  } else if (what == KILN_TEXT_CHAIN) {
    kn_text_append(&text, kernel->built.plan->chain_text);
  } else {
    return kn_fail(KILN_E_ARGUMENT,
                   "what is %d; a kernel has KILN_TEXT_KERNEL and "
                   "KILN_TEXT_CHAIN",
                   (int)what);
  }
  char *taken = kn_text_take(&text);
  if (!taken) return kn_fail(KILN_E_MEMORY, "out of memory");
  *out_text = taken;
  return KILN_OK;
}
