/* SPDX-License-Identifier: MIT */
/*
 * kiln bench: time of a kernel beside that of the best plain copy of as many bytes, in one run.
 *
 * Rounds of both are interleaved; a round is a burst of launches between two events, and the median
 * counts. Buffers rotate through two arenas, so that the L2 cache keeps nothing between launches:
 * one of inputs, which nothing writes, since time depends on the data too, and one of outputs.
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
  SEED_BYTES = 32 << 20
};
/* More than the L2 cache many times over. */
static const uint64_t ARENA_BYTES = UINT64_C(1200) << 20;

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
  kiln_kernel *kernel;
  kiln_arg args[MAX_ARGS];
  int sides[MAX_ARGS];        /* the arena of each tensor */
  uint64_t offsets[MAX_ARGS]; /* of each tensor in a set */
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

/* Describes every argument; scalars that are there get 1. */
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
    *arg = (kiln_arg){.name = info.name, .is_scalar = info.is_scalar, .scalar = 1};
    if (!info.is_scalar) {
      arg->tensor.dtype = info.dtype;
      arg->tensor.rank = info.rank;
      memcpy(arg->tensor.shape, info.shape, sizeof info.shape);
      memcpy(arg->tensor.strides, info.strides, sizeof info.strides);
      int side = info.role != KILN_IN;
      b->sides[b->num_args] = side;
      b->offsets[b->num_args] = b->set_bytes[side];
      b->set_bytes[side] += align_256(info.size_bytes);
    }
    ++b->num_args;
  }
  if (kiln_kernel_bytes(b->kernel, dims, num_dims, &b->bytes) != KILN_OK) return false;
  uint64_t larger = b->set_bytes[0] > b->set_bytes[1] ? b->set_bytes[0] : b->set_bytes[1];
  b->num_sets = larger ? (size_t)(ARENA_BYTES / larger) : 0;
  b->next = 0;
  if (b->num_sets > 0) return true;
  (void)cli_fail("the buffers of one launch take more than %llu bytes",
                 (unsigned long long)ARENA_BYTES);
  return false;
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

/* Normally distributed bf16 values over the whole arena: never zeros, never NaN. */
static uint8_t *make_arena(struct cli_device *d) {
  uint16_t *seed = malloc(SEED_BYTES);
  uint8_t *arena = cli_device_alloc(d, ARENA_BYTES);
  uint64_t state = 1;
  bool good = seed && arena;
  for (size_t i = 0; good && i < SEED_BYTES / sizeof *seed; ++i) {
    float value = -6;
    uint32_t bits;
    for (int j = 0; j < 12; ++j) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      value += (float)(state >> 40) / 16777216.0f;
    }
    memcpy(&bits, &value, sizeof bits);
    seed[i] = (uint16_t)(bits >> 16);
  }
  for (uint64_t at = 0; good && at < ARENA_BYTES; at += SEED_BYTES) {
    uint64_t bytes = ARENA_BYTES - at < SEED_BYTES ? ARENA_BYTES - at : SEED_BYTES;
    good = cli_device_upload(d, arena + at, seed, bytes);
  }
  free(seed);
  if (good) return arena;
  cli_device_free(d, arena);
  return NULL;
}

/* ---- measuring ---- */

static bool launch_once(struct bench *b) {
  size_t set = b->next++ % b->num_sets;
  for (size_t i = 0; i < b->num_args; ++i) {
    if (!b->args[i].is_scalar) {
      int side = b->sides[i];
      b->args[i].tensor.data = b->arenas[side] + b->set_bytes[side] * set + b->offsets[i];
    }
  }
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

static void add_row(cJSON *rows, const struct bench_case *c, const struct pairs *params,
                    const struct pairs *dims, const struct bench *b, const struct timing t[2]) {
  cJSON *row = cJSON_CreateObject();
  double gbps = (double)b->bytes / t[0].us / 1e3, copy_gbps = (double)b->bytes / t[1].us / 1e3;
  (void)cJSON_AddStringToObject(row, "op", c->op);
  add_pairs(row, "params", params);
  add_pairs(row, "dims", dims);
  (void)cJSON_AddBoolToObject(row, "graph", c->is_graph);
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
  cJSON_AddItemToArray(rows, row);
  (void)fprintf(stderr,
                "%-52.52s %8.2f us %5.0f GB/s  copy %8.2f us  ratio %.3f  +-%.1f%%  %s %s\n", c->op,
                t[0].us, gbps, t[1].us, t[1].us / t[0].us, t[0].spread * 50, c->params, c->dims);
}

/* The session: what all cases share. */
struct session {
  kiln *k;
  struct cli_device *device;
  uint8_t *arenas[2];
  kiln_kernel *copy;
  bool use_pdl;
  double warm_up_us;
  const char *extra; /* params that every case gets: tile overrides */
  cJSON *rows;
};

static bool run_case(struct session *s, const struct bench_case *c) {
  struct pairs params, dims;
  kiln_dim sizes[MAX_PARAMS];
  char text[512];
  struct bench b = {
      .device = s->device, .arenas = {s->arenas[0], s->arenas[1]}, .warm_up_us = s->warm_up_us};
  struct bench copy = {.device = s->device,
                       .arenas = {s->arenas[0], s->arenas[1]},
                       .kernel = s->copy,
                       .warm_up_us = WARM_UP_US};
  struct bench *const pair[2] = {&b, &copy};
  struct timing timing[2];
  (void)snprintf(text, sizeof text, "%s %s", c->params, s->extra);
  if (!split(text, &params) || !split(c->dims, &dims)) {
    (void)cli_fail("'%s %s' is not of the form name=value", text, c->dims);
    return false;
  }
  for (size_t i = 0; i < dims.count; ++i) {
    sizes[i] = (kiln_dim){dims.items[i].name, strtoll(dims.items[i].value, NULL, 10)};
  }
  if (!get_kernel(s->k, c->op, &params, &b.kernel)) return false;
  kiln_launch_options_init(&b.launch);
  b.launch.use_pdl = s->use_pdl;
  copy.launch = b.launch;
  bool good = set_up(&b, sizes, dims.count);
  if (!good) (void)cli_fail_last();
  good = good && set_up_copy(&copy, b.bytes);
  good = good && (c->is_graph ? time_graphs(pair, timing) : time_streams(pair, timing));
  if (good) add_row(s->rows, c, &params, &dims, &b, timing);
  s->warm_up_us = WARM_UP_US;
  kiln_kernel_unref(b.kernel);
  return good;
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
  for (int i = 0; i < 2; ++i) s->arenas[i] = make_arena(s->device);
  return s->arenas[0] && s->arenas[1] && get_kernel(s->k, "copy", &none, &s->copy);
}

static void close_session(struct session *s) {
  kiln_kernel_unref(s->copy);
  for (int i = 0; i < 2 && s->device; ++i) cli_device_free(s->device, s->arenas[i]);
  cli_device_close(s->device);
  kiln_close(s->k);
}

/* The cases of a suite, or of all, that contain `only`. */
static bool run_suite(struct session *s, const char *suite, const char *only) {
  bool good = true;
  size_t count = 0;
  for (size_t i = 0; i < bench_num_cases; ++i) {
    const struct bench_case *c = &bench_cases[i];
    if (suite && strcmp(suite, c->suite) != 0) continue;
    if (only && !strstr(c->op, only) && !strstr(c->params, only)) continue;
    good = run_case(s, c) && good;
    ++count;
  }
  if (count == 0) (void)cli_fail("no case of suite '%s' matches", suite ? suite : "any");
  return good && count > 0;
}

static bool run_all(struct session *s, const struct cli_options *options) {
  struct bench_case own;
  char params[512], dims[512];
  if (own_case(options, &own, params, dims, sizeof params)) return run_case(s, &own);
  return run_suite(s, cli_own(options, "suite"), cli_own(options, "only"));
}

static int run(const struct cli_options *options) {
  struct session s = {
      .use_pdl = cli_own(options, "pdl") != NULL, .warm_up_us = FIRST_WARM_UP_US, .extra = ""};
  cJSON *root = cJSON_CreateObject();
  bool good = true;
  if (cli_own(options, "with")) s.extra = cli_own(options, "with");
  if (cli_own(options, "host")) {
    good = bench_host(options, root);
  } else {
    good = open_session(options, &s);
    if (good) {
      add_facts(root, s.device);
      s.rows = cJSON_AddArrayToObject(root, "rows");
      good = run_all(&s, options);
    }
    close_session(&s);
  }
  if (options->json) return cli_json_finish(root, good ? CLI_DONE : CLI_FAILED);
  cJSON_Delete(root);
  return good ? CLI_DONE : CLI_FAILED;
}

static const struct cli_own_option own_options[] = {
    {"suite", "NAME", "all cases of a suite: core"},
    {"only", "TEXT", "of a suite, the cases whose operator or params contain TEXT"},
    {"dims", "LIST", "run-time sizes of OP, as num_tokens=8064 (the default) or a=1,b=2"},
    {"graph", NULL, "time OP as 100 nodes of one graph, for small sizes"},
    {"pdl", NULL, "launch with programmatic dependent launch, the copy too"},
    {"with", "PARAMS", "params that every case gets besides its own: 'tile.threads=128'"},
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
