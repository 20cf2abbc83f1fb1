/* SPDX-License-Identifier: MIT */
#include "cli/sweep.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cover.h"
#include "cli/json.h"
#include "cli/pool.h"
#include "cli/trial.h"

enum { MAX_LIST = 32, MAX_TOLD = 20, MESSAGE = 1024, MAX_WORKERS = 64 };
enum { MAX_FAILED = 1000 }; /* then the device, not a kernel, is at fault */

struct list {
  int64_t values[MAX_LIST];
  int count;
};

struct failure {
  char title[MESSAGE], message[MESSAGE];
};

struct tally {
  uint64_t cases, failed, skipped, elements, kernels;
};

/* One kernel and all that is launched on it. */
struct job {
  const struct cli_cover *cover;
  const struct cli_choice *choice;
  size_t op; /* index of the tally */
  bool has_large;
};

/* What of a job runs: with --max-cases every nth case, so that each kernel has some. */
struct sample {
  uint64_t next, stride;
};

struct sweep {
  const struct cli_options *options;
  kiln *k;
  struct list tokens, hidden;
  bool is_quick;
  uint64_t seed;
  int64_t max_cases;
  struct cli_cover *covers;
  size_t num_covers;
  struct job *jobs;
  size_t num_jobs;

  pthread_mutex_t mutex; /* guards all below */
  size_t next_job;
  uint64_t started; /* cases */
  bool stop;
  struct tally total, *tallies;
  struct failure failures[MAX_TOLD];
};

/* ---- results ---- */

/* Takes `count` cases out of those that may still run; with 0 only looks whether there are any. */
static bool begin_cases(struct sweep *s, uint64_t count) {
  bool go;
  (void)pthread_mutex_lock(&s->mutex);
  go = !s->stop && (s->max_cases == 0 || s->started < (uint64_t)s->max_cases);
  if (go) s->started += count;
  (void)pthread_mutex_unlock(&s->mutex);
  return go;
}

static void end_case(struct sweep *s, const struct job *job, uint64_t elements, const char *title,
                     const char *message) {
  struct tally *tally = &s->tallies[job->op];
  (void)pthread_mutex_lock(&s->mutex);
  ++tally->cases;
  tally->elements += elements;
  if (message) {
    if (s->total.failed < MAX_TOLD) {
      struct failure *f = &s->failures[s->total.failed];
      (void)snprintf(f->title, sizeof f->title, "%s", title);
      (void)snprintf(f->message, sizeof f->message, "%s", message);
      fprintf(stderr, "%s: %s\n", title, message);
    }
    ++tally->failed;
    if (++s->total.failed == MAX_FAILED) s->stop = true;
  }
  (void)pthread_mutex_unlock(&s->mutex);
}

/* ---- sizes ---- */

static void sizes_of(const struct sweep *s, const char *dim, struct list *out) {
  static const struct list rows = {{0, 1, 64, 127, 200}, 5}, batches = {{0, 1, 3}, 3},
                           bytes = {{0, 1, 15, 4096, 1000003}, 5}, shared = {{0, 2}, 2},
                           copies = {{1, 5}, 2}, expanded = {{0, 70, 700}, 3},
                           others = {{1, 127}, 2};
  if (strcmp(dim, "num_tokens") == 0) {
    *out = s->tokens;
  } else if (strcmp(dim, "num_rows") == 0 || strcmp(dim, "num_cols") == 0) {
    *out = rows;
  } else if (strcmp(dim, "batch") == 0) {
    *out = batches;
  } else if (strcmp(dim, "num_bytes") == 0) {
    *out = bytes;
  } else if (strcmp(dim, "num_shared_experts") == 0) {
    *out = shared;
  } else if (strcmp(dim, "num_physical") == 0) {
    *out = copies;
  } else if (strcmp(dim, "num_expanded_tokens") == 0) {
    *out = expanded;
  } else {
    *out = others;
  }
}

/* Whether the operator serves the trial's sizes, and whether it moves so much then that only some
   are worth the oracle's time. */
static bool serves_sizes(const struct cli_trial *trial, bool *out_is_large) {
  enum { LARGE = 8 << 20 };
  uint64_t bytes = 0;
  const kiln_status status = kiln_kernel_bytes(trial->kernel, trial->dims, trial->num_dims, &bytes);
  *out_is_large = bytes > LARGE;
  return status != KILN_E_ARGUMENT;
}

static bool next_sizes(struct cli_trial *trial, const struct list *lists, int *at) {
  for (size_t i = trial->num_dims; i-- > 0;) {
    if (++at[i] < lists[i].count) {
      trial->dims[i].value = lists[i].values[at[i]];
      return true;
    }
    at[i] = 0;
    trial->dims[i].value = lists[i].values[0];
  }
  return false;
}

/* ---- a job ---- */

static void run_case(struct sweep *s, const struct job *job, const struct cli_trial *trial,
                     struct cli_device *device) {
  char title[MESSAGE], message[MESSAGE] = "";
  uint64_t elements = 0;
  if (!begin_cases(s, 1)) return;
  if (cli_trial_run(trial, device, &elements, message, sizeof message)) {
    end_case(s, job, elements, NULL, NULL);
    return;
  }
  cli_trial_title(trial, title, sizeof title);
  end_case(s, job, elements, title, message);
}

/* Layouts and fills of one size; two of the four where it is large. */
static void run_variants(struct sweep *s, const struct job *job, struct sample *sample,
                         struct cli_trial *trial, struct cli_device *device) {
  bool large;
  if (!serves_sizes(trial, &large)) return;
  if (large && !job->has_large) return;
  for (int variant = 0; variant < 4; ++variant) {
    trial->is_shifted = variant & 1;
    trial->fill = variant & 2 ? KN_FILL_EDGES : KN_FILL_NORMAL;
    if (large && trial->is_shifted != (trial->fill == KN_FILL_EDGES)) continue;
    ++trial->seed;
    if (sample->next++ % sample->stride == 0) run_case(s, job, trial, device);
  }
}

static void run_sizes(struct sweep *s, const struct job *job, struct cli_trial *trial,
                      struct cli_device *device) {
  struct list lists[CLI_MAX_DIMS];
  struct sample sample = {.next = (uint64_t)(job - s->jobs), .stride = 1};
  uint64_t cases = 4;
  int at[CLI_MAX_DIMS] = {0};
  trial->num_dims = kiln_kernel_num_dims(trial->kernel);
  for (size_t i = 0; i < trial->num_dims; ++i) {
    trial->dims[i].name = kiln_kernel_dim_name(trial->kernel, i);
    sizes_of(s, trial->dims[i].name, &lists[i]);
    trial->dims[i].value = lists[i].values[0];
    cases *= (uint64_t)lists[i].count;
  }
  if (s->max_cases > 0) sample.stride = 1 + cases * s->num_jobs / (uint64_t)s->max_cases;
  do {
    run_variants(s, job, &sample, trial, device);
  } while (next_sizes(trial, lists, at));
}

static void run_job(struct sweep *s, const struct job *job, struct cli_device *device) {
  kiln_param params[CLI_MAX_AXES];
  struct cli_trial trial = {.op = job->cover->op, .params = params};
  kiln_request request;
  kiln_kernel *kernel = NULL;
  char title[MESSAGE];

  trial.num_params = cli_cover_params(job->cover, job->choice, params);
  trial.seed = s->seed * 1000003 + (uint64_t)(job - s->jobs) * 1000;
  kiln_request_init(&request);
  request.op = trial.op;
  request.params = params;
  request.num_params = trial.num_params;
  if (!begin_cases(s, 0)) return;
  if (kiln_get(s->k, &request, &kernel) != KILN_OK) {
    cli_trial_title(&trial, title, sizeof title);
    end_case(s, job, 0, title, kiln_last_error()->message);
    return;
  }
  (void)pthread_mutex_lock(&s->mutex);
  ++s->tallies[job->op].kernels;
  (void)pthread_mutex_unlock(&s->mutex);
  trial.kernel = kernel;
  run_sizes(s, job, &trial, device);
  kiln_kernel_unref(kernel);
}

static void *work(void *user) {
  struct sweep *s = user;
  struct cli_device *device = cli_device_open(0);
  for (;;) {
    size_t index;
    (void)pthread_mutex_lock(&s->mutex);
    if (!device) s->stop = true;
    index = s->stop ? s->num_jobs : s->next_job++;
    (void)pthread_mutex_unlock(&s->mutex);
    if (index >= s->num_jobs) break;
    run_job(s, &s->jobs[index], device);
  }
  cli_device_close(device);
  return NULL;
}

/* ---- what to run ---- */

static bool read_list(const struct cli_options *options, const char *name, struct list *out) {
  const char *at = cli_own(options, name);
  char *end = NULL;
  if (!at) return true;
  out->count = 0;
  for (;; at = end + 1) {
    const int64_t value = strtoll(at, &end, 10);
    if (end == at || value < 0 || out->count == MAX_LIST || (*end && *end != ',')) {
      (void)cli_usage(options, "--%s: '%s' is no list of at most %d sizes", name,
                      cli_own(options, name), MAX_LIST);
      return false;
    }
    out->values[out->count++] = value;
    if (!*end) return true;
  }
}

static bool has_free_size(const cJSON *spec) {
  const cJSON *item;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(spec, "params")) {
    if (strcmp(cli_json_string(item, "type"), "int") == 0 &&
        !cJSON_GetObjectItemCaseSensitive(item, "one_of") &&
        !cJSON_GetObjectItemCaseSensitive(item, "sweep")) {
      return true;
    }
  }
  return false;
}

static bool add_jobs(struct sweep *s, const struct cli_cover *cover, size_t op) {
  struct job *jobs = realloc(s->jobs, (s->num_jobs + cover->num_chosen + 1) * sizeof *jobs);
  if (!jobs) {
    (void)cli_fail("out of memory");
    return false;
  }
  s->jobs = jobs;
  for (size_t i = 0; i < cover->num_chosen; ++i) {
    jobs[s->num_jobs++] = (struct job){cover, &cover->chosen[i], op, i % 2 == 0};
  }
  s->tallies[op].skipped += cover->num_refused;
  return true;
}

static bool add_operator(struct sweep *s, const cJSON *spec, size_t op) {
  const int count = has_free_size(spec) ? s->hidden.count : 1;
  for (int i = 0; i < count; ++i) {
    struct cli_cover *cover = &s->covers[s->num_covers];
    if (!cli_cover_make(s->k, spec, s->hidden.values[i], cover)) return false;
    ++s->num_covers;
    if (!add_jobs(s, cover, op)) return false;
  }
  return true;
}

/* Specs stay, since covers point into them. */
static bool plan(struct sweep *s, cJSON *specs) {
  const char *only = cli_own(s->options, "op");
  const size_t count = kiln_num_operators(s->k);
  bool found = false;
  s->covers = calloc(count * MAX_LIST + 1, sizeof *s->covers);
  s->tallies = calloc(count + 1, sizeof *s->tallies);
  if (!s->covers || !s->tallies) {
    (void)cli_fail("out of memory");
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    const char *op = kiln_operator_name(s->k, i);
    cJSON *spec;
    if (only && strcmp(only, op) != 0) continue;
    spec = cli_json_operator(s->k, op);
    if (!spec) return false;
    cJSON_AddItemToArray(specs, spec);
    if (!add_operator(s, spec, i)) return false;
    found = true;
  }
  if (!found) (void)cli_usage(s->options, "there is no operator '%s'", only ? only : "");
  return found;
}

/* ---- the report ---- */

static void add_tally(cJSON *object, const struct tally *t) {
  cJSON_AddNumberToObject(object, "cases", (double)t->cases);
  cJSON_AddNumberToObject(object, "failed", (double)t->failed);
  cJSON_AddNumberToObject(object, "skipped", (double)t->skipped);
  cJSON_AddNumberToObject(object, "elements", (double)t->elements);
  cJSON_AddNumberToObject(object, "kernels", (double)t->kernels);
}

static void sum_up(struct sweep *s) {
  s->total.failed = 0;
  for (size_t i = 0; i < kiln_num_operators(s->k); ++i) {
    s->total.cases += s->tallies[i].cases;
    s->total.failed += s->tallies[i].failed;
    s->total.skipped += s->tallies[i].skipped;
    s->total.elements += s->tallies[i].elements;
    s->total.kernels += s->tallies[i].kernels;
  }
}

static int report_json(const struct sweep *s, int code) {
  cJSON *root = cJSON_CreateObject();
  cJSON *operators, *failures;
  add_tally(root, &s->total);
  operators = cJSON_AddObjectToObject(root, "operators");
  for (size_t i = 0; i < kiln_num_operators(s->k); ++i) {
    if (s->tallies[i].cases == 0) continue;
    add_tally(cJSON_AddObjectToObject(operators, kiln_operator_name(s->k, i)), &s->tallies[i]);
  }
  failures = cJSON_AddArrayToObject(root, "failures");
  for (uint64_t i = 0; i < s->total.failed && i < MAX_TOLD; ++i) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "case", s->failures[i].title);
    cJSON_AddStringToObject(item, "message", s->failures[i].message);
    cJSON_AddItemToArray(failures, item);
  }
  return cli_json_finish(root, code);
}

static int report(struct sweep *s) {
  int code;
  sum_up(s);
  code = s->total.failed > 0 || s->stop || s->total.cases == 0 ? CLI_FAILED : CLI_DONE;
  if (s->options->json) return report_json(s, code);
  for (size_t i = 0; i < kiln_num_operators(s->k); ++i) {
    const struct tally *t = &s->tallies[i];
    if (t->cases == 0) continue;
    printf("%s: %" PRIu64 " cases of %" PRIu64 " kernels, %" PRIu64 " failed\n",
           kiln_operator_name(s->k, i), t->cases, t->kernels, t->failed);
  }
  printf("%" PRIu64 " cases, %" PRIu64 " failed, %" PRIu64 " elements compared\n", s->total.cases,
         s->total.failed, s->total.elements);
  return code;
}

static void run_workers(struct sweep *s) {
  pthread_t threads[MAX_WORKERS];
  int count = s->options->jobs > 0 ? s->options->jobs : cli_pool_default_workers(), running = 0;
  if (count > MAX_WORKERS) count = MAX_WORKERS;
  while (running < count - 1 && pthread_create(&threads[running], NULL, work, s) == 0) ++running;
  (void)work(s);
  for (int i = 0; i < running; ++i) (void)pthread_join(threads[i], NULL);
}

int cli_sweep(const struct cli_options *options) {
  static const struct list tokens = {{0, 1, 127, 128, 129, 4097}, 6}, few_tokens = {{0, 1, 129}, 3};
  static const struct list hidden = {{7168, 577, 576, 64}, 4}, few_hidden = {{577, 576, 64}, 3};
  struct sweep s = {.options = options, .is_quick = cli_own(options, "quick") != NULL};
  cJSON *specs;
  int64_t seed = 1;
  int code = CLI_FAILED;

  s.tokens = s.is_quick ? few_tokens : tokens;
  s.hidden = s.is_quick ? few_hidden : hidden;
  if (!read_list(options, "T", &s.tokens) || !read_list(options, "hidden", &s.hidden) ||
      !cli_own_int(options, "seed", 0, INT32_MAX, &seed) ||
      !cli_own_int(options, "max-cases", 1, INT32_MAX, &s.max_cases)) {
    return CLI_USAGE;
  }
  s.seed = (uint64_t)seed;
  s.k = cli_open(options, NULL, 0);
  if (!s.k) return CLI_FAILED;
  specs = cJSON_CreateArray();
  (void)pthread_mutex_init(&s.mutex, NULL);
  if (plan(&s, specs)) {
    run_workers(&s);
    code = report(&s);
  }
  (void)pthread_mutex_destroy(&s.mutex);
  for (size_t i = 0; i < s.num_covers; ++i) cli_cover_release(&s.covers[i]);
  free(s.covers);
  free(s.tallies);
  free(s.jobs);
  cJSON_Delete(specs);
  kiln_close(s.k);
  return code;
}
