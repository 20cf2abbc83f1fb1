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

/* Scale factors in columns, whose distance is free. */
static bool is_column_major(const kiln_arg_info *info) {
  return info->rank == 2 && info->stride_is_free[1] && !info->stride_is_free[0];
}

/* Strides as wide as they may be chosen: rows three packs apart, columns of scales four more. */
static void spread(const kiln_arg_info *info, kiln_tensor *t) {
  int64_t reach = 1;
  if (is_column_major(info)) {
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
  if (is_column_major(info)) elements = t->shape[1] * t->strides[1];
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
  b->on_host = (struct kn_oracle_tensor){info->name, true, info->role, *t, NULL};
  b->on_host.tensor.data = b->host + b->offset;
  /* NaN, or no index, should a kernel read beside the data */
  memset(b->host, info->role == KILN_OUT ? CLI_POISON : 0xFF, b->bytes);
  if (info->role != KILN_IN) b->on_host.tensor.size_bytes += GUARD;
  if (info->role == KILN_INOUT) b->before = malloc(b->on_host.tensor.size_bytes);
  b->on_host.before = b->before;
  return info->role != KILN_INOUT || b->before;
}

static uint64_t random_of(uint64_t seed, const char *name) {
  uint64_t hash = seed * 0x9E3779B97F4A7C15u + 0xCBF29CE484222325u;
  for (; *name; ++name) hash = (hash ^ (uint8_t)*name) * 0x100000001B3u;
  hash ^= hash >> 32;
  return hash * 0xD6E8FEB86659FD93u >> 16;
}

/* Values that matter: bounds of amax within and far below what data has, and limits of gates; of a
   range small numbers above all, and its ends. */
static double scalar_value(const kiln_arg_info *info, uint64_t seed) {
  static const double least[] = {0.01, 1e-20, 3}, most[] = {1.5, 0.25, 10};
  const uint64_t random = random_of(seed, info->name);
  uint64_t width = (uint64_t)(info->high - info->low);
  if (!info->has_range || info->high < info->low) {
    return strstr(info->name, "clamp_min") ? least[seed % 3] : most[seed % 3];
  }
  if (random % 8 == 0) return (double)(random >> 3 & 1 ? info->high : info->low);
  while (width > 1 && width > random >> 8 % 24) width /= 2;
  return (double)(info->low + (int64_t)((random >> 4) % (width + 1)));
}

static void make_scalar(struct cli_setup *setup, const kiln_arg_info *info,
                        const struct cli_trial *trial) {
  kiln_arg *arg = &setup->args[setup->num_args++];
  arg->name = info->name;
  arg->is_scalar = 1;
  arg->scalar = scalar_value(info, trial->seed);
  for (size_t i = 0; i < trial->num_fixed; ++i) {
    if (strcmp(trial->fixed[i].name, info->name) == 0) arg->scalar = trial->fixed[i].value;
  }
  setup->scalars[setup->num_scalars++] = (struct kn_oracle_scalar){info->name, true, arg->scalar};
  if (info->dtype != KILN_F32) {
    setup->dims[setup->num_dims++] = (kiln_dim){info->name, (int64_t)arg->scalar};
  }
}

static bool argument_info(const struct cli_setup *setup, size_t index, kiln_arg_info *info,
                          char *message, size_t capacity) {
  kiln_arg_info_init(info);
  if (kiln_kernel_arg_info(setup->kernel, index, setup->dims, setup->num_dims, info) == KILN_OK) {
    return true;
  }
  (void)snprintf(message, capacity, "%s", kiln_last_error()->message);
  return false;
}

/* Scratch memory for the launch, whose grid is made for some number of SMs. */
static bool make_workspace(struct cli_setup *setup, const struct cli_trial *trial, char *message,
                           size_t capacity) {
  static const int sms[] = {114, 0, 1, 3};
  uint64_t bytes = 0;
  kiln_launch_options_init(&setup->options);
  setup->options.num_sms = sms[trial->seed % 4];
  if (kiln_workspace_bytes(setup->kernel, setup->args, setup->num_args, &setup->options, &bytes) !=
      KILN_OK) {
    (void)snprintf(message, capacity, "%s", kiln_last_error()->message);
    return false;
  }
  if (bytes == 0) return true;
  setup->options.workspace_bytes = bytes;
  setup->options.workspace = cli_device_alloc(setup->device, bytes + GUARD);
  setup->workspace = malloc(bytes + GUARD);
  if (setup->workspace && setup->options.workspace) {
    memset(setup->workspace, CLI_POISON, bytes + GUARD);
    return true;
  }
  (void)snprintf(message, capacity, "no memory for a workspace");
  return false;
}

bool cli_setup_make(struct cli_setup *setup, struct cli_device *device,
                    const struct cli_trial *trial, char *message, size_t capacity) {
  const size_t count = kiln_kernel_num_args(trial->kernel);
  kiln_arg_info info;
  *setup = (struct cli_setup){.device = device, .kernel = trial->kernel};
  memcpy(setup->dims, trial->dims, sizeof trial->dims);
  setup->num_dims = trial->num_dims;
  if (count > CLI_MAX_TENSORS) {
    (void)snprintf(message, capacity, "more than %d arguments", CLI_MAX_TENSORS);
    return false;
  }
  for (size_t i = 0; i < count; ++i) { /* ranges of tensors may depend on scalars */
    if (!argument_info(setup, i, &info, message, capacity)) return false;
    if (info.is_scalar && info.is_present) make_scalar(setup, &info, trial);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!argument_info(setup, i, &info, message, capacity)) return false;
    if (info.is_scalar || !info.is_present) continue;
    if (!make_tensor(setup, &info, trial->is_shifted)) {
      (void)snprintf(message, capacity, "no memory for %s", info.name);
      return false;
    }
  }
  return make_workspace(setup, trial, message, capacity);
}

void cli_setup_release(struct cli_setup *setup) {
  for (size_t i = 0; i < setup->num_buffers; ++i) {
    cli_device_free(setup->device, setup->buffers[i].device);
    free(setup->buffers[i].host);
    free(setup->buffers[i].before);
  }
  setup->num_buffers = 0;
  cli_device_free(setup->device, setup->options.workspace);
  free(setup->workspace);
  setup->workspace = NULL;
}

static void fill_maps(const struct cli_setup *setup, const struct cli_trial *trial) {
  struct kn_oracle_tensor tensors[CLI_MAX_TENSORS];
  for (size_t i = 0; i < setup->num_buffers; ++i) tensors[i] = setup->buffers[i].on_host;
  kn_oracle_fill_maps(tensors, setup->num_buffers, trial->fill, trial->seed);
}

void cli_setup_fill(struct cli_setup *setup, const struct cli_trial *trial) {
  for (size_t i = 0, buffer = 0; buffer < setup->num_buffers; ++i) {
    kiln_arg_info info;
    char message[1];
    if (!argument_info(setup, i, &info, message, sizeof message)) return;
    if (info.is_scalar || !info.is_present) continue;
    const kiln_tensor *t = &setup->buffers[buffer].on_host.tensor;
    const uint64_t seed = trial->seed + buffer++;
    if (info.role == KILN_OUT) continue;
    if (info.has_range) {
      kn_oracle_fill_indices(t, trial->fill, seed, info.high + 1);
    } else if (strcmp(info.name, "error") == 0) {
      kn_oracle_fill_error(t, seed);
    } else {
      kn_oracle_fill(t, trial->fill, seed);
    }
  }
  fill_maps(setup, trial);
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
  return kiln_launch(setup->kernel, setup->args, setup->num_args, &setup->options,
                     cli_device_stream(setup->device)) == KILN_OK;
}

bool cli_setup_launch(struct cli_setup *setup, char *message, size_t capacity) {
  bool good = true;
  for (size_t i = 0; i < setup->num_buffers && good; ++i) {
    const struct cli_buffer *b = &setup->buffers[i];
    good = cli_device_upload(setup->device, b->device, b->host, b->bytes);
    if (b->before) memcpy(b->before, b->on_host.tensor.data, b->on_host.tensor.size_bytes);
  }
  if (setup->workspace) {
    good = good && cli_device_upload(setup->device, setup->options.workspace, setup->workspace,
                                     setup->options.workspace_bytes + GUARD);
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
  if (setup->workspace) {
    good = good && cli_device_download(setup->device, setup->workspace, setup->options.workspace,
                                       setup->options.workspace_bytes + GUARD);
  }
  if (!good) (void)snprintf(message, capacity, "the device failed");
  return good;
}

double cli_setup_time_us(struct cli_setup *setup) {
  return cli_device_time_us(setup->device, launch, setup);
}

/* ---- checking ---- */

static bool check_front(const struct cli_setup *setup, char *message, size_t capacity) {
  for (uint64_t i = 0; setup->workspace && i < GUARD; ++i) {
    if (setup->workspace[setup->options.workspace_bytes + i] == CLI_POISON) continue;
    (void)snprintf(message, capacity, "byte %" PRIu64 " behind the workspace was written", i);
    return false;
  }
  for (size_t i = 0; i < setup->num_buffers; ++i) {
    const struct cli_buffer *b = &setup->buffers[i];
    const uint8_t guard = b->on_host.role == KILN_OUT ? CLI_POISON : 0xFF;
    if (b->on_host.role == KILN_IN) continue;
    for (uint64_t at = 0; at < b->offset; ++at) {
      if (b->host[at] == guard) continue;
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
  if (good) cli_setup_fill(&setup, trial);
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
