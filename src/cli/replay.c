/* SPDX-License-Identifier: MIT */
#include "cli/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/trial.h"
#include "oracle/golden.h"

enum { MAX_FILE = 64 << 20, MESSAGE = 512, MAX_TOLD = 20 };

struct replay {
  const struct cli_options *options;
  kiln *k;
  struct cli_device *device;
  int cases, failed, not_served;
  cJSON *failures;
};

enum outcome { EQUAL, DIFFERS, NOT_SERVED };

/* All of a file; NULL after a message. */
static void *read_file(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  char *bytes = malloc(MAX_FILE);
  if (!file || !bytes) {
    (void)cli_fail("cannot read %s", path);
    free(bytes);
    if (file) (void)fclose(file);
    return NULL;
  }
  *out_size = fread(bytes, 1, MAX_FILE, file);
  (void)fclose(file);
  return bytes;
}

/* Puts the recorded inputs in place. */
static bool take_inputs(const struct kn_golden *golden, struct cli_setup *setup, char *message) {
  for (size_t i = 0; i < setup->num_buffers; ++i) {
    const struct cli_buffer *b = &setup->buffers[i];
    const struct kn_golden_array *array = kn_golden_input(golden, b->on_host.name);
    if (b->on_host.role == KILN_OUT) continue;
    if (!array && b->on_host.role == KILN_INOUT) continue; /* only written in this case */
    if (!array ||
        (b->on_host.role == KILN_IN ? array->tensor.size_bytes != b->on_host.tensor.size_bytes
                                    : array->tensor.size_bytes > b->on_host.tensor.size_bytes)) {
      (void)snprintf(message, MESSAGE, "%s is not recorded in this size", b->on_host.name);
      return false;
    }
    memcpy(b->on_host.tensor.data, array->tensor.data, array->tensor.size_bytes);
  }
  return true;
}

/* To the bit against the record, or with --tolerant against the oracle, for SwiGLU. */
static bool compare(const struct replay *r, const struct kn_golden *golden,
                    const struct cli_trial *trial, struct cli_setup *setup, char *message) {
  uint64_t compared = 0;
  if (cli_own(r->options, "tolerant") && strncmp(trial->op, "swiglu", 6) == 0) {
    return cli_setup_check(setup, trial, &compared, message, MESSAGE);
  }
  for (size_t i = 0; i < golden->num_arrays; ++i) {
    const struct kn_golden_array *array = &golden->arrays[i];
    const struct cli_buffer *b = cli_setup_find(setup, array->name);
    if (!array->is_output) continue;
    if (!b) {
      (void)snprintf(message, MESSAGE, "the kernel has no %s", array->name);
      return false;
    }
    if (!kn_golden_equal(array, &b->on_host.tensor, message, MESSAGE)) return false;
  }
  return true;
}

static bool launch(const struct replay *r, const struct kn_golden *golden,
                   const struct kn_golden_request *request, struct cli_trial *trial,
                   char *message) {
  struct cli_setup setup;
  bool good;
  struct kn_oracle_scalar scalars[KN_GOLDEN_MAX];
  for (size_t i = 0; i < request->num_scalars; ++i) {
    const struct kn_golden_param *scalar = &request->scalars[i];
    scalars[i] = (struct kn_oracle_scalar){scalar->name, true, strtod(scalar->value, NULL)};
  }
  trial->fixed = scalars;
  trial->num_fixed = request->num_scalars;
  memcpy(trial->dims, request->dims, sizeof request->dims);
  trial->num_dims = request->num_dims;
  good = cli_setup_make(&setup, r->device, trial, message, MESSAGE) &&
         take_inputs(golden, &setup, message) && cli_setup_launch(&setup, message, MESSAGE) &&
         compare(r, golden, trial, &setup, message);
  cli_setup_release(&setup);
  trial->fixed = NULL;
  trial->num_fixed = 0;
  return good;
}

static enum outcome run_case(const struct replay *r, const void *bytes, size_t size,
                             char *message) {
  struct kn_golden golden;
  struct kn_golden_request mapped;
  kiln_param params[KN_GOLDEN_MAX];
  struct cli_trial trial = {.params = params};
  kiln_kernel *kernel = NULL;
  kiln_request request;
  enum outcome outcome;

  if (!kn_golden_parse(bytes, size, &golden)) {
    (void)snprintf(message, MESSAGE, "it is no golden case");
    return DIFFERS;
  }
  if (!kn_golden_request(&golden, &mapped)) return NOT_SERVED;
  for (size_t i = 0; i < mapped.num_params; ++i) {
    params[i] = (kiln_param){mapped.params[i].name, mapped.params[i].value};
  }
  kiln_request_init(&request);
  request.op = trial.op = mapped.op;
  request.params = params;
  request.num_params = trial.num_params = mapped.num_params;
  if (kiln_get(r->k, &request, &kernel) != KILN_OK) {
    (void)snprintf(message, MESSAGE, "%s", kiln_last_error()->message);
    return DIFFERS;
  }
  trial.kernel = kernel;
  outcome = launch(r, &golden, &mapped, &trial, message) ? EQUAL : DIFFERS;
  kiln_kernel_unref(kernel);
  return outcome;
}

static void run_file(struct replay *r, const char *path) {
  char message[MESSAGE] = "";
  size_t size = 0;
  void *bytes = read_file(path, &size);
  enum outcome outcome = DIFFERS;
  cJSON *item;

  if (bytes) outcome = run_case(r, bytes, size, message);
  free(bytes);
  r->cases += outcome != NOT_SERVED;
  r->not_served += outcome == NOT_SERVED;
  if (outcome != DIFFERS) return;
  fprintf(stderr, "%s: %s\n", path, message);
  if (++r->failed > MAX_TOLD) return;
  item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "case", path);
  cJSON_AddStringToObject(item, "message", message);
  cJSON_AddItemToArray(r->failures, item);
}

static int report(const struct replay *r, int code) {
  cJSON *root;
  if (!r->options->json) {
    printf("%d cases, %d failed, %d not served\n", r->cases, r->failed, r->not_served);
    return code;
  }
  root = cJSON_CreateObject();
  cJSON_AddNumberToObject(root, "cases", r->cases);
  cJSON_AddNumberToObject(root, "failed", r->failed);
  cJSON_AddNumberToObject(root, "not_served", r->not_served);
  cJSON_AddItemReferenceToObject(root, "failures", r->failures);
  return cli_json_finish(root, code);
}

int cli_replay(const struct cli_options *options) {
  struct replay r = {.options = options};
  int code = CLI_FAILED;
  if (options->num_operands == 0) return cli_usage(options, "--golden needs files");
  r.k = cli_open(options, NULL, 0);
  if (!r.k) return CLI_FAILED;
  r.device = cli_device_open(0);
  r.failures = cJSON_CreateArray();
  if (r.device) {
    for (size_t i = 0; i < options->num_operands; ++i) run_file(&r, options->operands[i]);
    code = report(&r, r.failed > 0 ? CLI_FAILED : CLI_DONE);
  }
  cJSON_Delete(r.failures);
  cli_device_close(r.device);
  kiln_close(r.k);
  return code;
}
