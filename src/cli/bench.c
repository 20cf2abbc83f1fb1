/* SPDX-License-Identifier: MIT */
/*
 * kiln bench: time of a kernel beside that of the best plain copy of as many bytes, in one run.
 *
 * Rounds of both are interleaved; a round is a burst of launches between two events, and the median
 * counts. Buffers rotate through two arenas, so that the L2 cache keeps nothing between launches:
 * one of inputs, which nothing writes, since time depends on the data too, and one of outputs.
 * Tensors of indices are filled anew for each case. Tensors that are read and written lie among the
 * outputs, where the copy's rounds leave normal data: no operator here takes longer for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bench.h"
#include "cli/device.h"
#include "cli/json.h"
#include "cli/options.h"

enum {
  ROUNDS = 9,
  MAX_ARGS = 32,
  MAX_PARAMS = 32,
  GRAPH_NODES = 100,
  GRAPH_REPLAYS = 10,
  BURST_US = 2000,            /* a round is at least this long */
  FIRST_WARM_UP_US = 2000000, /* the GPU comes from idling */
  WARM_UP_US = 100000,
  SEED_BYTES = 32 << 20,
  ARENA_MIB = 1200 /* more than the L2 cache many times over */
};

/* "name=value .." taken apart; texts live in `text`. */
struct pairs {
  char text[512];
  kiln_param items[MAX_PARAMS];
  size_t count;
};

/* A kernel with everything a launch needs but the addresses, which rotate. */
struct bench {
  struct cli_device *device;
  uint8_t *arenas[2]; /* inputs, outputs */
  uint64_t arena_bytes;
  kiln_kernel *kernel;
  kiln_arg args[MAX_ARGS];
  int sides[MAX_ARGS];        /* the arena of each tensor */
  uint64_t offsets[MAX_ARGS]; /* of each tensor in a set */
  void *indices[MAX_ARGS];    /* what a tensor of indices holds in every set, else NULL */
  uint64_t bytes_of[MAX_ARGS];
  size_t num_args;
  uint64_t set_bytes[2], bytes; /* of a set of buffers; that a launch moves */
  size_t num_sets, next;
  int burst;
  double warm_up_us;
  kiln_launch_options launch;
};

static bool split(const char *text, struct pairs *out) {
  out->count = 0;
  (void)snprintf(out->text, sizeof out->text, "%s", text);
  for (char *word = strtok(out->text, " "); word; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    if (!equals || out->count == MAX_PARAMS) return false;
    *equals = '\0';
    out->items[out->count++] = (kiln_param){word, equals + 1};
  }
  return true;
}

/* ---- setting up ---- */

static uint64_t align_256(uint64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

static double scalar_of(const char *name, const kiln_dim *dims, size_t num_dims) {
  for (size_t i = 0; i < num_dims; ++i) {
    if (strcmp(dims[i].name, name) == 0) return (double)dims[i].value;
  }
  return 1;
}

/* Describes every argument. */
static bool set_up(struct bench *b, const kiln_dim *dims, size_t num_dims) {
  size_t count = kiln_kernel_num_args(b->kernel);
  b->num_args = 0;
  b->set_bytes[0] = b->set_bytes[1] = 0;
  for (size_t i = 0; i < count && b->num_args < MAX_ARGS; ++i) {
    kiln_arg_info info;
    kiln_arg_info_init(&info);
    if (kiln_kernel_arg_info(b->kernel, i, dims, num_dims, &info) != KILN_OK) return false;
    if (!info.is_present) continue;
    kiln_arg *arg = &b->args[b->num_args];
    *arg = (kiln_arg){.name = info.name, .is_scalar = info.is_scalar};
    b->indices[b->num_args] = NULL;
    if (info.is_scalar) {
      arg->scalar = scalar_of(info.name, dims, num_dims);
    } else {
      arg->tensor.dtype = info.dtype;
      arg->tensor.rank = info.rank;
      memcpy(arg->tensor.shape, info.shape, sizeof info.shape);
      memcpy(arg->tensor.strides, info.strides, sizeof info.strides);
      int side = info.role != KILN_IN;
      b->sides[b->num_args] = side;
      b->offsets[b->num_args] = b->set_bytes[side];
      b->bytes_of[b->num_args] = info.size_bytes;
      b->set_bytes[side] += align_256(info.size_bytes);
      if (!bench_fill_indices(&info, dims, num_dims, &b->indices[b->num_args])) return false;
    }
    ++b->num_args;
  }
  if (kiln_kernel_bytes(b->kernel, dims, num_dims, &b->bytes) != KILN_OK) return false;
  uint64_t larger = b->set_bytes[0] > b->set_bytes[1] ? b->set_bytes[0] : b->set_bytes[1];
  b->num_sets = larger ? (size_t)(b->arena_bytes / larger) : 0;
  b->next = 0;
  if (b->num_sets > 0) return true;
  (void)cli_fail("the buffers of one launch take more than %llu bytes",
                 (unsigned long long)b->arena_bytes);
  return false;
}

static void use_set(struct bench *b, size_t set) {
  for (size_t i = 0; i < b->num_args; ++i) {
    if (b->args[i].is_scalar) continue;
    int side = b->sides[i];
    b->args[i].tensor.data = b->arenas[side] + b->set_bytes[side] * set + b->offsets[i];
  }
}

static bool has_indices(const struct bench *b) {
  for (size_t i = 0; i < b->num_args; ++i) {
    if (b->indices[i]) return true;
  }
  return false;
}

/* Puts indices into every set, and finds the workspace that all launches share. */
static bool prepare(struct bench *b) {
  for (size_t set = 0; set < b->num_sets && has_indices(b); ++set) {
    use_set(b, set);
    for (size_t i = 0; i < b->num_args; ++i) {
      if (b->indices[i] &&
          !cli_device_upload(b->device, b->args[i].tensor.data, b->indices[i], b->bytes_of[i])) {
        return false;
      }
    }
  }
  use_set(b, 0);
  if (kiln_workspace_bytes(b->kernel, b->args, b->num_args, &b->launch,
                           &b->launch.workspace_bytes) != KILN_OK) {
    (void)cli_fail_last();
    return false;
  }
  if (b->launch.workspace_bytes == 0) return true;
  b->launch.workspace = cli_device_alloc(b->device, b->launch.workspace_bytes);
  return b->launch.workspace != NULL;
}

static void release(struct bench *b) {
  for (size_t i = 0; i < b->num_args; ++i) free(b->indices[i]);
  cli_device_free(b->device, b->launch.workspace);
  kiln_kernel_unref(b->kernel);
}

static bool get_kernel(kiln *k, const char *op, const struct pairs *params, kiln_kernel **out) {
  kiln_request request;
  kiln_request_init(&request);
  request.op = op;
  request.params = params->items;
  request.num_params = params->count;
  if (kiln_get(k, &request, out) == KILN_OK) return true;
  (void)cli_fail_last();
  return false;
}

static bool set_up_copy(struct bench *copy, uint64_t bytes) {
  kiln_dim dim = {"num_bytes", (int64_t)(bytes / 2 / 16 * 16)};
  return set_up(copy, &dim, 1);
}

/* Normally distributed bf16 values: never zeros, never NaN. */
static void *make_seed(void) {
  uint16_t *seed = malloc(SEED_BYTES);
  uint64_t state = 1;
  for (size_t i = 0; seed && i < SEED_BYTES / sizeof *seed; ++i) {
    float value = -6;
    uint32_t bits;
    for (int j = 0; j < 12; ++j) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      value += (float)(state >> 40) / 16777216.0f;
    }
    memcpy(&bits, &value, sizeof bits);
    seed[i] = (uint16_t)(bits >> 16);
  }
  return seed;
}

static bool fill_arena(struct cli_device *d, uint8_t *arena, uint64_t arena_bytes,
                       const void *seed) {
  for (uint64_t at = 0; at < arena_bytes; at += SEED_BYTES) {
    uint64_t bytes = arena_bytes - at < SEED_BYTES ? arena_bytes - at : SEED_BYTES;
    if (!cli_device_upload(d, arena + at, seed, bytes)) return false;
  }
  return true;
}

/* ---- measuring ---- */

static bool launch_once(struct bench *b) {
  use_set(b, b->next++ % b->num_sets);
  return kiln_launch(b->kernel, b->args, b->num_args, &b->launch, cli_device_stream(b->device)) ==
         KILN_OK;
}

static bool launch_burst(void *user) {
  struct bench *b = user;
  for (int i = 0; i < b->burst; ++i) {
    if (!launch_once(b)) {
      (void)cli_fail_last();
      return false;
    }
  }
  return true;
}

struct replay {
  struct cli_device *device;
  cli_graph *graph;
};

static bool launch_replays(void *user) {
  struct replay *replay = user;
  for (int i = 0; i < GRAPH_REPLAYS; ++i) {
    if (!cli_graph_launch(replay->device, replay->graph)) return false;
  }
  return true;
}

static int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

struct timing {
  double us, spread; /* median of a launch; (slowest - fastest) / median of the rounds */
};

static struct timing summarise(double *rounds) {
  qsort(rounds, ROUNDS, sizeof *rounds, by_value);
  double median = rounds[ROUNDS / 2];
  return (struct timing){median, (rounds[ROUNDS - 1] - rounds[0]) / median};
}

/* Runs the kernel until clocks and power have settled: right after something lighter, kernels that
   compute are several per cent slower than a moment later. Then chooses how many launches make a
   round long enough. */
static bool choose_burst(struct bench *b) {
  double us = 0, all = 0;
  b->burst = 16;
  while (all < b->warm_up_us) {
    us = cli_device_time_us(b->device, launch_burst, b);
    if (us <= 0) return false;
    all += us;
  }
  double wanted = BURST_US / (us / b->burst);
  b->burst = wanted < 16 ? 16 : wanted > 400 ? 400 : (int)wanted;
  return true;
}

static bool time_streams(struct bench *const pair[2], struct timing out[2]) {
  double rounds[2][ROUNDS];
  for (int i = 0; i < 2; ++i) {
    if (!choose_burst(pair[i])) return false;
  }
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < 2; ++i) {
      double us = cli_device_time_us(pair[i]->device, launch_burst, pair[i]);
      if (us < 0) return false;
      rounds[i][round] = us / pair[i]->burst;
    }
  }
  for (int i = 0; i < 2; ++i) out[i] = summarise(rounds[i]);
  return true;
}

static bool time_graphs(struct bench *const pair[2], struct timing out[2]) {
  struct replay replays[2] = {{0}};
  double rounds[2][ROUNDS];
  bool good = true;
  for (int i = 0; i < 2 && good; ++i) {
    pair[i]->burst = GRAPH_NODES;
    replays[i].device = pair[i]->device;
    good = launch_burst(pair[i]) && cli_device_wait(pair[i]->device);
    if (good) replays[i].graph = cli_graph_capture(pair[i]->device, launch_burst, pair[i]);
    good = good && replays[i].graph;
    good = good && cli_device_time_us(pair[i]->device, launch_replays, &replays[i]) >= 0;
  }
  for (int round = 0; round < ROUNDS && good; ++round) {
    for (int i = 0; i < 2 && good; ++i) {
      double us = cli_device_time_us(pair[i]->device, launch_replays, &replays[i]);
      rounds[i][round] = us / GRAPH_REPLAYS / GRAPH_NODES;
      good = us >= 0;
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (good) out[i] = summarise(rounds[i]);
    cli_graph_free(pair[i]->device, replays[i].graph);
  }
  return good;
}

/* ---- one case ---- */

static void add_pairs(cJSON *row, const char *name, const struct pairs *pairs) {
  cJSON *object = cJSON_AddObjectToObject(row, name);
  for (size_t i = 0; i < pairs->count; ++i) {
    (void)cJSON_AddStringToObject(object, pairs->items[i].name, pairs->items[i].value);
  }
}

static void add_kernel_facts(cJSON *row, const kiln_kernel *kernel) {
  cJSON *facts = cli_json_kernel(kernel);
  const cJSON *functions = cJSON_GetObjectItemCaseSensitive(facts, "functions");
  const cJSON *steps = cJSON_GetObjectItemCaseSensitive(facts, "steps");
  const cJSON *function;
  cJSON *registers = cJSON_AddObjectToObject(row, "registers");
  cJSON_ArrayForEach(function, functions) {
    (void)cJSON_AddNumberToObject(registers, cli_json_string(function, "name"),
                                  cli_json_number(function, "registers"));
  }
  (void)cJSON_AddNumberToObject(row, "threads",
                                cli_json_number(cJSON_GetArrayItem(steps, 0), "threads"));
  (void)cJSON_AddStringToObject(row, "canonical", cli_json_string(facts, "canonical"));
  cJSON_Delete(facts);
}

/* What is measured. */
static cJSON *make_row(const struct bench_case *c, const struct pairs *params,
                       const struct pairs *dims) {
  cJSON *row = cJSON_CreateObject();
  if (c->suite[0]) (void)cJSON_AddStringToObject(row, "suite", c->suite);
  (void)cJSON_AddStringToObject(row, "op", c->op);
  add_pairs(row, "params", params);
  add_pairs(row, "dims", dims);
  (void)cJSON_AddBoolToObject(row, "graph", c->is_graph);
  return row;
}

static void add_times(cJSON *row, const struct bench_case *c, const struct bench *b,
                      const struct timing t[2]) {
  double gbps = (double)b->bytes / t[0].us / 1e3, copy_gbps = (double)b->bytes / t[1].us / 1e3;
  (void)cJSON_AddBoolToObject(row, "pdl", b->launch.use_pdl != 0);
  (void)cJSON_AddNumberToObject(row, "bytes", (double)b->bytes);
  (void)cJSON_AddNumberToObject(row, "us", t[0].us);
  (void)cJSON_AddNumberToObject(row, "gbps", gbps);
  (void)cJSON_AddNumberToObject(row, "copy_us", t[1].us);
  (void)cJSON_AddNumberToObject(row, "copy_gbps", copy_gbps);
  (void)cJSON_AddNumberToObject(row, "ratio", t[1].us / t[0].us);
  (void)cJSON_AddNumberToObject(row, "spread", t[0].spread);
  (void)cJSON_AddNumberToObject(row, "copy_spread", t[1].spread);
  add_kernel_facts(row, b->kernel);
  (void)fprintf(stderr,
                "%-52.52s %8.2f us %5.0f GB/s  copy %8.2f us  ratio %.3f  +-%.1f%%  %s %s\n", c->op,
                t[0].us, gbps, t[1].us, t[1].us / t[0].us, t[0].spread * 50, c->params, c->dims);
}

/* The session: what all cases share. */
struct session {
  kiln *k;
  struct cli_device *device;
  uint8_t *arenas[2];
  uint64_t arena_bytes;
  void *seed; /* what the arenas are filled with */
  kiln_kernel *copy;
  bool use_pdl, is_once;
  double warm_up_us;
  const char *extra; /* params that every case gets: tile overrides */
  cJSON *rows;
};

/* Times a case, or launches it once where no time is asked for. */
static bool measure(struct session *s, const struct bench_case *c, struct bench *b, cJSON *row) {
  struct bench copy = {.device = s->device,
                       .arenas = {s->arenas[0], s->arenas[1]},
                       .arena_bytes = s->arena_bytes,
                       .kernel = s->copy,
                       .launch = {.size = sizeof copy.launch, .use_pdl = b->launch.use_pdl},
                       .warm_up_us = WARM_UP_US};
  struct bench *const pair[2] = {b, &copy};
  struct timing timing[2];
  if (s->is_once) {
    b->burst = 1;
    return launch_burst(b) && cli_device_wait(s->device);
  }
  if (!set_up_copy(&copy, b->bytes)) return false;
  if (!(c->is_graph ? time_graphs(pair, timing) : time_streams(pair, timing))) return false;
  add_times(row, c, b, timing);
  return true;
}

/* A case's params, those of the command line included, and run-time sizes. */
static bool split_case(const struct session *s, const struct bench_case *c, struct pairs *params,
                       struct pairs *dims) {
  char text[512];
  (void)snprintf(text, sizeof text, "%s %s", c->params, s->extra);
  if (split(text, params) && split(c->dims, dims)) return true;
  (void)cli_fail("'%s %s' is not of the form name=value", text, c->dims);
  return false;
}

static bool run_case(struct session *s, const struct bench_case *c) {
  struct pairs params, dims;
  kiln_dim sizes[MAX_PARAMS];
  struct bench b = {.device = s->device,
                    .arenas = {s->arenas[0], s->arenas[1]},
                    .arena_bytes = s->arena_bytes,
                    .warm_up_us = s->warm_up_us};
  if (!split_case(s, c, &params, &dims)) return false;
  for (size_t i = 0; i < dims.count; ++i) {
    sizes[i] = (kiln_dim){dims.items[i].name, strtoll(dims.items[i].value, NULL, 10)};
  }
  if (!get_kernel(s->k, c->op, &params, &b.kernel)) return false;
  kiln_launch_options_init(&b.launch);
  b.launch.use_pdl = s->use_pdl;
  bool good = set_up(&b, sizes, dims.count);
  if (!good) (void)cli_fail_last();
  cJSON *row = make_row(c, &params, &dims);
  good = good && prepare(&b) && measure(s, c, &b, row);
  if (good) {
    cJSON_AddItemToArray(s->rows, row);
  } else {
    cJSON_Delete(row);
  }
  if (has_indices(&b)) {
    good = cli_device_wait(s->device) &&
           fill_arena(s->device, s->arenas[0], s->arena_bytes, s->seed) && good;
  }
  s->warm_up_us = WARM_UP_US;
  release(&b);
  return good;
}

/* Says what a case is, without a GPU; false if the operator would refuse its params. */
static bool list_case(struct session *s, const struct bench_case *c) {
  struct pairs params, dims;
  kiln_request request;
  char *source = NULL;
  if (!split_case(s, c, &params, &dims)) return false;
  kiln_request_init(&request);
  request.op = c->op;
  request.params = params.items;
  request.num_params = params.count;
  if (kiln_emit(s->k, &request, &source) != KILN_OK) {
    (void)cli_fail_last();
    return false;
  }
  kiln_free(source);
  cJSON_AddItemToArray(s->rows, make_row(c, &params, &dims));
  (void)fprintf(stderr, "%s%s%s %s %s%s\n", c->suite, c->suite[0] ? " " : "", c->op, c->params,
                c->dims, c->is_graph ? " (graph)" : "");
  return true;
}

/* ---- the command ---- */

static void add_facts(cJSON *root, const struct cli_device *d) {
  char date[32];
  time_t now = time(NULL);
  struct tm utc;
  const char *commit = getenv("KILN_COMMIT");
  (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  (void)cJSON_AddStringToObject(root, "date", date);
  (void)cJSON_AddStringToObject(root, "kiln", kiln_version());
  (void)cJSON_AddStringToObject(root, "commit", commit ? commit : "");
  (void)cJSON_AddStringToObject(root, "gpu", cli_device_name(d));
  (void)cJSON_AddNumberToObject(root, "num_sms", cli_device_num_sms(d));
  (void)cJSON_AddNumberToObject(root, "sm_mhz", cli_device_sm_mhz(d));
  (void)cJSON_AddNumberToObject(root, "driver", cli_device_driver_version(d));
  (void)cJSON_AddStringToObject(root, "baseline",
                                "copy: 256 threads, one 16-byte vector a thread, .cs, same bytes");
}

/* The case of the command line, or NULL where a suite is asked for. */
static bool own_case(const struct cli_options *options, struct bench_case *out, char *params,
                     char *dims, size_t capacity) {
  if (options->num_operands == 0) return false;
  size_t at = 0;
  params[0] = '\0';
  for (size_t i = 0; i < options->num_params && at < capacity; ++i) {
    int length = snprintf(params + at, capacity - at, "%s=%s ", options->params[i].name,
                          options->params[i].value);
    at += length > 0 ? (size_t)length : 0;
  }
  const char *given = cli_own(options, "dims");
  (void)snprintf(dims, capacity, "%s", given ? given : "num_tokens=8064");
  for (char *c = dims; *c; ++c) *c = *c == ',' ? ' ' : *c;
  *out = (struct bench_case){"", options->operands[0], params, dims,
                             cli_own(options, "graph") != NULL};
  return true;
}

static bool open_session(const struct cli_options *options, struct session *s) {
  const struct pairs none = {.count = 0};
  s->k = cli_open(options, NULL, 0);
  if (!s->k) return false;
  s->device = cli_device_open(0);
  if (!s->device) return false;
  s->seed = make_seed();
  for (int i = 0; i < 2; ++i) {
    s->arenas[i] = cli_device_alloc(s->device, s->arena_bytes);
    if (!s->seed || !s->arenas[i] ||
        !fill_arena(s->device, s->arenas[i], s->arena_bytes, s->seed)) {
      return false;
    }
  }
  return get_kernel(s->k, "copy", &none, &s->copy);
}

static void close_session(struct session *s) {
  kiln_kernel_unref(s->copy);
  for (int i = 0; i < 2 && s->device; ++i) cli_device_free(s->device, s->arenas[i]);
  free(s->seed);
  cli_device_close(s->device);
  kiln_close(s->k);
}

/* The cases of a suite, or of all, that contain `only`. */
static bool run_suite(struct session *s, const char *suite, const char *only,
                      bool (*each)(struct session *s, const struct bench_case *c)) {
  bool good = true;
  size_t count = 0;
  for (size_t i = 0; i < bench_num_cases; ++i) {
    const struct bench_case *c = &bench_cases[i];
    if (suite && strcmp(suite, c->suite) != 0) continue;
    if (only && !strstr(c->op, only) && !strstr(c->params, only)) continue;
    good = each(s, c) && good;
    ++count;
  }
  if (count == 0) (void)cli_fail("no case of suite '%s' matches", suite ? suite : "any");
  return good && count > 0;
}

static bool run_all(struct session *s, const struct cli_options *options) {
  bool (*each)(struct session *, const struct bench_case *) =
      cli_own(options, "list") ? list_case : run_case;
  struct bench_case own;
  char params[512], dims[512];
  if (own_case(options, &own, params, dims, sizeof params)) return each(s, &own);
  return run_suite(s, cli_own(options, "suite"), cli_own(options, "only"), each);
}

/* What the command does with `root`: lists, or measures on a device. */
static bool fill_root(struct session *s, const struct cli_options *options, cJSON *root) {
  if (cli_own(options, "list")) {
    s->k = cli_open(options, cli_targets[0], KILN_NO_CACHE);
    if (!s->k) return false;
  } else {
    if (!open_session(options, s)) return false;
    add_facts(root, s->device);
  }
  s->rows = cJSON_AddArrayToObject(root, "rows");
  return run_all(s, options);
}

static int run(const struct cli_options *options) {
  struct session s = {.use_pdl = cli_own(options, "pdl") != NULL,
                      .is_once = cli_own(options, "once") != NULL,
                      .warm_up_us = FIRST_WARM_UP_US,
                      .extra = ""};
  int64_t arena_mib = ARENA_MIB;
  if (!cli_own_int(options, "arena", 1, 1 << 20, &arena_mib)) return CLI_USAGE;
  s.arena_bytes = (uint64_t)arena_mib << 20;
  if (cli_own(options, "with")) s.extra = cli_own(options, "with");
  cJSON *root = cJSON_CreateObject();
  bool good = cli_own(options, "host") ? bench_host(options, root) : fill_root(&s, options, root);
  close_session(&s);
  if (options->json) return cli_json_finish(root, good ? CLI_DONE : CLI_FAILED);
  cJSON_Delete(root);
  return good ? CLI_DONE : CLI_FAILED;
}

static const struct cli_own_option own_options[] = {
    {"suite", "NAME", "all cases of a suite: core, quant or moe"},
    {"only", "TEXT", "of a suite, the cases whose operator or params contain TEXT"},
    {"dims", "LIST", "run-time sizes of OP, as num_tokens=8064 (the default) or a=1,b=2"},
    {"graph", NULL, "time OP as 100 nodes of one graph, for small sizes"},
    {"pdl", NULL, "launch with programmatic dependent launch, the copy too"},
    {"with", "PARAMS", "params that every case gets besides its own: 'tile.threads=128'"},
    {"list", NULL, "say what the cases are, and that their operators take them, without a GPU"},
    {"once", NULL, "launch each case once and time nothing: for sanitizers"},
    {"arena", "MIB", "memory that inputs, and outputs, rotate through: 1200"},
    {"host", NULL, "times of the host only: answers from memory and disk, emit, compile"},
    {0}};

const struct cli_command cli_bench = {
    .name = "bench",
    .usage = "[OP [name=value ..]]",
    .about = "Time kernels beside the best plain copy of as many bytes",
    .help =
        "Prints for each case the median time of a launch, GB/s by the spec's `bytes`, and the\n"
        "ratio to the copy, whose rounds are interleaved with the kernel's. Needs a GPU, but\n"
        "for --host.\n",
    .shared = CLI_SPECS | CLI_CACHE | CLI_BUILD | CLI_JSON | CLI_PARAMS,
    .min_operands = 0,
    .max_operands = 1,
    .own = own_options,
    .run = run,
};
