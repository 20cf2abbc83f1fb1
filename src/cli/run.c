/* SPDX-License-Identifier: MIT */
/* kiln run: launch a kernel on made-up data and compare it with the oracle. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"
#include "cli/replay.h"
#include "cli/sweep.h"
#include "cli/trial.h"

enum { MESSAGE = 512, MAX_PARAMS = 64, DEFAULT_SIZE = 4096 };

/* The command line taken apart: what the spec calls a param, and sizes. */
struct split {
  kiln_param params[MAX_PARAMS];
  size_t num_params;
  kiln_param sizes[CLI_MAX_DIMS];
  size_t num_sizes;
};

static bool is_param(const cJSON *spec, const char *name) {
  const cJSON *item;
  if (strchr(name, '.')) return true;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(spec, "params")) {
    if (strcmp(cli_json_string(item, "name"), name) == 0) return true;
  }
  return false;
}

static bool split_params(const struct cli_options *options, const cJSON *spec, struct split *out) {
  for (size_t i = 0; i < options->num_params; ++i) {
    kiln_param param = options->params[i];
    if (strcmp(param.name, "T") == 0 && !is_param(spec, "T")) param.name = "num_tokens";
    if (is_param(spec, param.name) && out->num_params < MAX_PARAMS) {
      out->params[out->num_params++] = param;
    } else if (out->num_sizes < CLI_MAX_DIMS) {
      out->sizes[out->num_sizes++] = param;
    } else {
      (void)cli_usage(options, "too many params");
      return false;
    }
  }
  return true;
}

/* Each run-time size of the kernel as given, or DEFAULT_SIZE. */
static bool take_sizes(const struct cli_options *options, const struct split *split,
                       struct cli_trial *trial) {
  bool used[CLI_MAX_DIMS] = {false};
  trial->num_dims = kiln_kernel_num_dims(trial->kernel);
  for (size_t i = 0; i < trial->num_dims; ++i) {
    kiln_dim *dim = &trial->dims[i];
    *dim = (kiln_dim){kiln_kernel_dim_name(trial->kernel, i), DEFAULT_SIZE};
    for (size_t j = 0; j < split->num_sizes; ++j) {
      char *end = NULL;
      if (strcmp(split->sizes[j].name, dim->name) != 0) continue;
      used[j] = true;
      dim->value = strtoll(split->sizes[j].value, &end, 10);
      if (end == split->sizes[j].value || *end || dim->value < 0) {
        (void)cli_usage(options, "%s=%s is no size", dim->name, split->sizes[j].value);
        return false;
      }
    }
  }
  for (size_t j = 0; j < split->num_sizes; ++j) {
    if (used[j]) continue;
    (void)cli_usage(options, "%s has neither a param nor a size %s", trial->op,
                    split->sizes[j].name);
    return false;
  }
  return true;
}

struct result {
  bool is_equal;
  uint64_t compared, bytes;
  double us;
  char message[MESSAGE];
};

/* Launches once to have everything warm and compared, once to be timed. False on failure. */
static bool launch(const struct cli_options *options, struct cli_device *device,
                   const struct cli_trial *trial, struct result *out) {
  struct cli_setup setup;
  bool good = cli_setup_make(&setup, device, trial, out->message, MESSAGE);
  if (good) cli_setup_fill(&setup, trial);
  good = good && cli_setup_launch(&setup, out->message, MESSAGE);
  out->is_equal = good;
  if (good && cli_own(options, "check")) {
    out->is_equal = cli_setup_check(&setup, trial, &out->compared, out->message, MESSAGE);
  }
  if (good) out->us = cli_setup_time_us(&setup);
  cli_setup_release(&setup);
  (void)kiln_kernel_bytes(trial->kernel, trial->dims, trial->num_dims, &out->bytes);
  return good;
}

static int report(const struct cli_options *options, const struct cli_trial *trial,
                  const struct result *r) {
  const double gb_per_s = r->us > 0 ? (double)r->bytes / r->us / 1000 : 0;
  const int code = r->is_equal ? CLI_DONE : CLI_FAILED;
  char title[2 * MESSAGE];
  cli_trial_title(trial, title, sizeof title);
  if (options->json) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "case", title);
    cJSON_AddNumberToObject(root, "cases", 1);
    cJSON_AddNumberToObject(root, "failed", !r->is_equal);
    cJSON_AddNumberToObject(root, "elements", (double)r->compared);
    cJSON_AddNumberToObject(root, "us", r->us);
    cJSON_AddNumberToObject(root, "bytes", (double)r->bytes);
    cJSON_AddNumberToObject(root, "gb_per_s", gb_per_s);
    cJSON_AddStringToObject(root, "message", r->message);
    return cli_json_finish(root, code);
  }
  if (!r->is_equal) return cli_fail("%s: %s", title, r->message);
  printf("%s\n%.1f us, %.0f GB/s", title, r->us, gb_per_s);
  if (cli_own(options, "check")) printf(", %" PRIu64 " elements as the contract says", r->compared);
  printf("\n");
  return code;
}

static int run_kernel(const struct cli_options *options, kiln *k, const struct split *split,
                      int64_t seed) {
  struct cli_trial trial = {.op = options->operands[0],
                            .params = split->params,
                            .num_params = split->num_params,
                            .is_shifted = cli_own(options, "shifted") != NULL,
                            .fill = cli_own(options, "edges") ? KN_FILL_EDGES : KN_FILL_NORMAL};
  struct result result = {.us = -1};
  struct cli_device *device = NULL;
  kiln_kernel *kernel = NULL;
  kiln_request request;
  int code = CLI_FAILED;

  trial.seed = (uint64_t)seed;
  kiln_request_init(&request);
  request.op = trial.op;
  request.params = split->params;
  request.num_params = split->num_params;
  if (kiln_get(k, &request, &kernel) != KILN_OK) return cli_fail_last();
  trial.kernel = kernel;
  if (!take_sizes(options, split, &trial)) {
    code = CLI_USAGE;
  } else if ((device = cli_device_open(0)) != NULL) {
    (void)launch(options, device, &trial, &result);
    code = report(options, &trial, &result);
  }
  cli_device_close(device);
  kiln_kernel_unref(kernel);
  return code;
}

static int run_one(const struct cli_options *options) {
  struct split split = {.num_params = 0};
  int64_t seed = 1;
  int code = CLI_FAILED;
  cJSON *spec;
  kiln *k;
  if (!cli_own_int(options, "seed", 0, INT32_MAX, &seed)) return CLI_USAGE;
  if (options->num_operands != 1) return cli_usage(options, "an operator, --all or --golden");
  k = cli_open(options, NULL, 0);
  if (!k) return CLI_FAILED;
  spec = cli_json_operator(k, options->operands[0]);
  if (spec) {
    code = split_params(options, spec, &split) ? run_kernel(options, k, &split, seed) : CLI_USAGE;
  }
  cJSON_Delete(spec);
  kiln_close(k);
  return code;
}

static int run(const struct cli_options *options) {
  if (cli_own(options, "golden")) return cli_replay(options);
  if (!cli_own(options, "all")) return run_one(options);
  if (options->num_operands > 0) return cli_usage(options, "--all takes no operand; see --op");
  return cli_sweep(options);
}

static const struct cli_own_option own[] = {
    {"check", NULL, "compare with the oracle (always with --all)"},
    {"seed", "N", "of the made-up data, default 1"},
    {"edges", NULL, "NaN, infinities, subnormals, ties and the like instead of plain data"},
    {"shifted", NULL, "data off alignment and rows apart"},
    {"all", NULL, "every operator, its options, sizes, layouts and data"},
    {"quick", NULL, "with --all: fewer sizes"},
    {"op", "NAME", "with --all: this operator only"},
    {"max-cases", "N", "with --all: at most so many, spread over all kernels"},
    {"T", "LIST", "with --all: these numbers of tokens"},
    {"hidden", "LIST", "with --all: these sizes of rows"},
    {"golden", NULL, "the operands are files with recorded cases"},
    {"tolerant", NULL, "with --golden: the contract's tolerance for SwiGLU"},
    {NULL, NULL, NULL}};

const struct cli_command cli_run = {
    .name = "run",
    .usage = "OP [name=value ..] | --all | --golden FILE ..",
    .about = "Launch kernels on made-up data and compare them with the oracle",
    .help =
        "Run-time sizes are given as params are: T=4096 (num_tokens), num_rows=128. Outputs\n"
        "are poisoned first, and guarded. Exit code 1 if anything differs.\n",
    .shared = CLI_JSON | CLI_SPECS | CLI_CACHE | CLI_BUILD | CLI_JOBS | CLI_PARAMS,
    .min_operands = 0,
    .max_operands = -1,
    .own = own,
    .run = run,
};
