/* SPDX-License-Identifier: MIT */
#include "cli/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 };

/* ---- layout ---- */

static int pack_of(kiln_dtype dtype) {
  return dtype == KILN_E5M6 ? 8 : dtype == KILN_E2M1 ? 2 : 1;
}

/* Where the data begins behind an aligned address. */
static uint64_t shift_of(kiln_dtype dtype) {
  const int bits = kiln_dtype_bits(dtype);
  return dtype == KILN_E5M6 ? 4 : bits < 8 ? 1 : (uint64_t)bits / 8;
}

/* Strides as wide as they may be chosen: rows three packs apart, columns of scales four more. */
static void spread(const kiln_arg_info *info, kiln_tensor *t) {
  int64_t reach = 1;
  if (info->rank == 2 && info->stride_is_free[1]) {
    t->strides[1] += 4;
    return;
  }
  for (int axis = t->rank - 1; axis >= 0; --axis) {
    if (info->stride_is_free[axis]) t->strides[axis] = reach + 3 * pack_of(t->dtype);
    reach = t->shape[axis] * t->strides[axis];
  }
}

/* Bytes from the first element to behind the last one; padding rows of scale factors included. */
static uint64_t span_of(const kiln_arg_info *info, const kiln_tensor *t) {
  int64_t elements = 1;
  for (int axis = 0; axis < t->rank; ++axis) {
    if (t->shape[axis] == 0) return 0;
    elements += (t->shape[axis] - 1) * t->strides[axis];
  }
  if (info->rank == 2 && info->stride_is_free[1]) elements = t->shape[1] * t->strides[1];
  return (uint64_t)elements * (uint64_t)kiln_dtype_bits(t->dtype) / 8;
}

static bool make_tensor(struct cli_setup *setup, const kiln_arg_info *info, bool is_shifted) {
  struct cli_buffer *b = &setup->buffers[setup->num_buffers++];
  kiln_arg *arg = &setup->args[setup->num_args++];
  kiln_tensor *t = &arg->tensor;

  arg->name = info->name;
  *t = kiln_tensor_make(NULL, info->dtype, info->rank, info->shape);
  memcpy(t->strides, info->strides, sizeof t->strides);
  if (is_shifted) spread(info, t);
  t->size_bytes = span_of(info, t);
  b->offset = GUARD + (is_shifted ? shift_of(info->dtype) : 0);
  b->bytes = b->offset + t->size_bytes + GUARD;
  b->device = cli_device_alloc(setup->device, b->bytes);
  b->host = malloc(b->bytes);
  if (!b->device || !b->host) return false;
  t->data = (uint8_t *)b->device + b->offset;
  b->on_host = (struct kn_oracle_tensor){info->name, true, info->role, *t};
  b->on_host.tensor.data = b->host + b->offset;
  if (info->role == KILN_OUT) {
    b->on_host.tensor.size_bytes += GUARD;
    memset(b->host, CLI_POISON, b->bytes);
  } else {
    memset(b->host, 0xFF, b->bytes); /* NaN, should a kernel read beside the data */
  }
  return true;
}

/* Values that matter: bounds of amax within and far below what data has, and limits of gates. */
static double scalar_value(const char *name, uint64_t seed) {
  static const double least[] = {0.01, 1e-20, 3}, most[] = {1.5, 0.25, 10};
  return strstr(name, "clamp_min") ? least[seed % 3] : most[seed % 3];
}

static void make_scalar(struct cli_setup *setup, const kiln_arg_info *info, uint64_t seed) {
  kiln_arg *arg = &setup->args[setup->num_args++];
  arg->name = info->name;
  arg->is_scalar = 1;
  arg->scalar = scalar_value(info->name, seed);
  setup->scalars[setup->num_scalars++] = (struct kn_oracle_scalar){info->name, true, arg->scalar};
}

bool cli_setup_make(struct cli_setup *setup, struct cli_device *device,
                    const struct cli_trial *trial, char *message, size_t capacity) {
  const size_t count = kiln_kernel_num_args(trial->kernel);
  *setup = (struct cli_setup){.device = device, .kernel = trial->kernel};
  if (count > CLI_MAX_TENSORS) {
    (void)snprintf(message, capacity, "more than %d arguments", CLI_MAX_TENSORS);
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    kiln_arg_info info;
    kiln_arg_info_init(&info);
    if (kiln_kernel_arg_info(trial->kernel, i, trial->dims, trial->num_dims, &info) != KILN_OK) {
      (void)snprintf(message, capacity, "%s", kiln_last_error()->message);
      return false;
    }
    if (!info.is_present) continue;
    if (info.is_scalar) {
      make_scalar(setup, &info, trial->seed);
    } else if (!make_tensor(setup, &info, trial->is_shifted)) {
      (void)snprintf(message, capacity, "no memory for %s", info.name);
      return false;
    }
  }
  return true;
}

void cli_setup_release(struct cli_setup *setup) {
  for (size_t i = 0; i < setup->num_buffers; ++i) {
    cli_device_free(setup->device, setup->buffers[i].device);
    free(setup->buffers[i].host);
  }
  setup->num_buffers = 0;
}

struct cli_buffer *cli_setup_find(struct cli_setup *setup, const char *name) {
  for (size_t i = 0; i < setup->num_buffers; ++i) {
    if (strcmp(setup->buffers[i].on_host.name, name) == 0) return &setup->buffers[i];
  }
  return NULL;
}

/* ---- launching ---- */

static bool launch(void *user) {
  const struct cli_setup *setup = user;
  return kiln_launch(setup->kernel, setup->args, setup->num_args, NULL,
                     cli_device_stream(setup->device)) == KILN_OK;
}

bool cli_setup_launch(struct cli_setup *setup, char *message, size_t capacity) {
  bool good = true;
  for (size_t i = 0; i < setup->num_buffers && good; ++i) {
    const struct cli_buffer *b = &setup->buffers[i];
    good = cli_device_upload(setup->device, b->device, b->host, b->bytes);
  }
  if (good && !launch(setup)) {
    (void)snprintf(message, capacity, "%s", kiln_last_error()->message);
    return false;
  }
  good = good && cli_device_wait(setup->device);
  for (size_t i = 0; i < setup->num_buffers && good; ++i) {
    const struct cli_buffer *b = &setup->buffers[i];
    if (b->on_host.role == KILN_IN) continue;
    good = cli_device_download(setup->device, b->host, b->device, b->bytes);
  }
  if (!good) (void)snprintf(message, capacity, "the device failed");
  return good;
}

double cli_setup_time_us(struct cli_setup *setup) {
  return cli_device_time_us(setup->device, launch, setup);
}

/* ---- checking ---- */

static bool check_front(const struct cli_setup *setup, char *message, size_t capacity) {
  for (size_t i = 0; i < setup->num_buffers; ++i) {
    const struct cli_buffer *b = &setup->buffers[i];
    if (b->on_host.role == KILN_IN) continue;
    for (uint64_t at = 0; at < b->offset; ++at) {
      if (b->host[at] == CLI_POISON) continue;
      (void)snprintf(message, capacity, "%s: byte %" PRIu64 " before the data was written",
                     b->on_host.name, b->offset - at);
      return false;
    }
  }
  return true;
}

bool cli_setup_check(struct cli_setup *setup, const struct cli_trial *trial, uint64_t *compared,
                     char *message, size_t capacity) {
  struct kn_oracle_tensor tensors[CLI_MAX_TENSORS];
  struct kn_oracle_report report = {0, 0, ""};
  struct kn_oracle_case c = {.op = trial->op,
                             .tensors = tensors,
                             .num_tensors = setup->num_buffers,
                             .scalars = setup->scalars,
                             .num_scalars = setup->num_scalars,
                             .params = trial->params,
                             .num_params = trial->num_params};
  char *chain = NULL;
  kiln_status status;

  for (size_t i = 0; i < setup->num_buffers; ++i) tensors[i] = setup->buffers[i].on_host;
  if (kiln_kernel_text(trial->kernel, KILN_TEXT_CHAIN, &chain) != KILN_OK) {
    (void)snprintf(message, capacity, "%s", kiln_last_error()->message);
    return false;
  }
  c.chain = chain;
  status = kn_oracle_check(&c, CLI_POISON, &report);
  kiln_free(chain);
  *compared += report.compared;
  if (status != KILN_OK) {
    (void)snprintf(message, capacity, "the oracle has no answer: %s", kiln_status_name(status));
    return false;
  }
  if (report.failed > 0) {
    (void)snprintf(message, capacity, "%s (%" PRIu64 " of %" PRIu64 " differ)", report.first,
                   report.failed, report.compared);
    return false;
  }
  return check_front(setup, message, capacity);
}

bool cli_trial_run(const struct cli_trial *trial, struct cli_device *device, uint64_t *compared,
                   char *message, size_t capacity) {
  struct cli_setup setup;
  bool good = cli_setup_make(&setup, device, trial, message, capacity);
  for (size_t i = 0; i < setup.num_buffers && good; ++i) {
    const struct kn_oracle_tensor *t = &setup.buffers[i].on_host;
    if (t->role == KILN_IN) kn_oracle_fill(&t->tensor, trial->fill, trial->seed + i);
  }
  good = good && cli_setup_launch(&setup, message, capacity) &&
         cli_setup_check(&setup, trial, compared, message, capacity);
  cli_setup_release(&setup);
  return good;
}

void cli_trial_title(const struct cli_trial *trial, char *out, size_t capacity) {
  static const char *const fills[KN_NUM_FILLS] = {"normal", "edges"};
  size_t used = (size_t)snprintf(out, capacity, "%s", trial->op);
  for (size_t i = 0; i < trial->num_params && used < capacity; ++i) {
    used += (size_t)snprintf(out + used, capacity - used, " %s=%s", trial->params[i].name,
                             trial->params[i].value);
  }
  for (size_t i = 0; i < trial->num_dims && used < capacity; ++i) {
    used += (size_t)snprintf(out + used, capacity - used, " %s=%" PRId64, trial->dims[i].name,
                             trial->dims[i].value);
  }
  if (used < capacity) {
    (void)snprintf(out + used, capacity - used, ", %s, %s, seed %" PRIu64,
                   trial->is_shifted ? "shifted" : "aligned", fills[trial->fill], trial->seed);
  }
}
