/* SPDX-License-Identifier: MIT */
/* kiln prewarm: every example of every spec, for every target, into the cache. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/json.h"
#include "cli/options.h"
#include "cli/pool.h"

enum { TITLE_BYTES = 256 };

/* One kernel to build. `result` is what its worker said, with "result": hit, compiled or failed. */
struct job {
  char *op;
  struct cli_params params;
  char title[TITLE_BYTES];
  const char *arch;
  cJSON *result;
};

struct prewarm {
  const struct cli_options *options;
  struct job *jobs;
  int num_jobs, capacity, num_done;
  int num_compiled, num_hit, num_failed;
  kiln *contexts[CLI_MAX_ARCHS]; /* of a worker, one for each target that came along */
};

static double now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- in the workers -------------------------------------------------------------------------- */

static void add_last_error(cJSON *result) {
  const kiln_error *error = kiln_last_error();
  cJSON_AddStringToObject(result, "status", kiln_status_name(error->status));
  cJSON_AddStringToObject(result, "message", error->message);
  if (error->file) {
    cJSON_AddStringToObject(result, "file", error->file);
    cJSON_AddNumberToObject(result, "line", error->line);
    cJSON_AddNumberToObject(result, "column", error->column);
  }
  if (error->log && error->log[0]) cJSON_AddStringToObject(result, "log", error->log);
}

/* The worker's context for a target, opened when it is first needed. */
static kiln *context(struct prewarm *p, const char *arch) {
  size_t i;
  for (i = 0; i + 1 < p->options->num_archs && p->options->archs[i] != arch; i++) continue;
  if (!p->contexts[i]) p->contexts[i] = cli_open(p->options, arch, 0);
  return p->contexts[i];
}

static uint64_t store_failures(kiln *k) {
  kiln_stats stats;
  kiln_stats_init(&stats);
  return kiln_get_stats(k, &stats) == KILN_OK ? stats.store_failures : 0;
}

/* A kernel that was compiled but not stored is no good for a cache that is to be shipped. */
static void add_kernel(cJSON *result, const kiln_kernel *kernel, bool was_lost) {
  cJSON *json = cli_json_kernel(kernel);
  struct cli_resources resources;
  const char *origin = cli_json_string(json, "origin");

  cli_json_resources(json, &resources);
  if (was_lost) {
    cJSON_AddStringToObject(result, "result", "failed");
    cJSON_AddStringToObject(result, "message", "compiled, but the cache could not keep it");
  } else {
    cJSON_AddStringToObject(result, "result", strcmp(origin, "compiler") == 0 ? "compiled" : "hit");
  }
  cJSON_AddNumberToObject(result, "registers", resources.registers);
  cJSON_AddNumberToObject(result, "spill_bytes", resources.spill_bytes);
  cJSON_AddNumberToObject(result, "shared_bytes", resources.shared_bytes);
  cJSON_AddStringToObject(result, "key", cli_json_string(json, "key"));
  cJSON_Delete(json);
}

static char *build(void *user, int index) {
  struct prewarm *p = user;
  const struct job *job = &p->jobs[index];
  const double start = now_ms();
  cJSON *result = cJSON_CreateObject();
  kiln_kernel *kernel = NULL;
  kiln_request request;
  char *text;
  kiln *k = context(p, job->arch);

  kiln_request_init(&request);
  request.op = job->op;
  request.params = job->params.items;
  request.num_params = job->params.count;
  if (k) {
    const uint64_t before = store_failures(k);
    if (kiln_get(k, &request, &kernel) == KILN_OK) {
      add_kernel(result, kernel, store_failures(k) > before);
    };
  }
  if (!kernel) {
    cJSON_AddStringToObject(result, "result", "failed");
    add_last_error(result);
  }
  cJSON_AddNumberToObject(result, "ms", now_ms() - start);
  kiln_kernel_unref(kernel);
  text = cJSON_PrintUnformatted(result);
  cJSON_Delete(result);
  return text;
}

/* ---- in the command's process ---------------------------------------------------------------- */

static void count(struct prewarm *p, const cJSON *result) {
  const char *word = cli_json_string(result, "result");
  if (strcmp(word, "compiled") == 0) {
    p->num_compiled++;
  } else if (strcmp(word, "hit") == 0) {
    p->num_hit++;
  } else {
    p->num_failed++;
  }
}

static void built(void *user, int index, const char *text, int wait_status) {
  struct prewarm *p = user;
  struct job *job = &p->jobs[index];

  job->result = text ? cJSON_Parse(text) : NULL;
  if (!job->result) {
    char message[128];
    if (WIFSIGNALED(wait_status)) {
      (void)snprintf(message, sizeof message, "the worker was killed by signal %d (%s)",
                     WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    } else {
      (void)snprintf(message, sizeof message, "the worker ended with exit code %d",
                     WEXITSTATUS(wait_status));
    }
    job->result = cJSON_CreateObject();
    cJSON_AddStringToObject(job->result, "result", "failed");
    cJSON_AddStringToObject(job->result, "message", message);
  }
  count(p, job->result);
  p->num_done++;
  if (isatty(STDERR_FILENO)) {
    fprintf(stderr, "\r\033[K[%d/%d] %.60s %s", p->num_done, p->num_jobs, job->title, job->arch);
    if (p->num_done == p->num_jobs) fprintf(stderr, "\r\033[K");
  }
}

static bool add_job(struct prewarm *p, const char *op, const cJSON *example, const char *arch) {
  struct job *job;
  if (p->num_jobs == p->capacity) {
    const int capacity = p->capacity ? 2 * p->capacity : 64;
    struct job *jobs = realloc(p->jobs, (size_t)capacity * sizeof *jobs);
    if (!jobs) return cli_fail("out of memory") == CLI_DONE;
    p->jobs = jobs;
    p->capacity = capacity;
  }
  job = &p->jobs[p->num_jobs];
  *job = (struct job){.arch = arch};
  if (!cli_params_read(example, &job->params)) return false;
  p->num_jobs++;
  job->op = strdup(op);
  if (!job->op) return cli_fail("out of memory") == CLI_DONE;
  cli_params_title(op, &job->params, job->title, sizeof job->title);
  return true;
}

/* All examples of all operators for all targets. */
static bool make_plan(struct prewarm *p) {
  kiln *k = cli_open(p->options, p->options->archs[0], KILN_NO_CACHE);
  bool ok = k != NULL;
  size_t i, a;

  for (i = 0; ok && i < kiln_num_operators(k); i++) {
    const char *op = kiln_operator_name(k, i);
    cJSON *spec = cli_json_operator(k, op);
    const cJSON *example;
    ok = spec != NULL;
    cJSON_ArrayForEach(example, cJSON_GetObjectItemCaseSensitive(spec, "examples")) {
      for (a = 0; ok && a < p->options->num_archs; a++) {
        ok = add_job(p, op, example, p->options->archs[a]);
      }
    }
    cJSON_Delete(spec);
  }
  kiln_close(k);
  return ok;
}

static void print_failures(const struct prewarm *p) {
  int i;
  for (i = 0; i < p->num_jobs; i++) {
    const struct job *job = &p->jobs[i];
    if (strcmp(cli_json_string(job->result, "result"), "failed") != 0) continue;
    cli_print_fault(&(struct cli_fault){.file = cli_json_string(job->result, "file"),
                                        .line = (int)cli_json_number(job->result, "line"),
                                        .column = (int)cli_json_number(job->result, "column"),
                                        .message = cli_json_string(job->result, "message"),
                                        .request = job->title,
                                        .target = job->arch,
                                        .log = cli_json_string(job->result, "log")});
  }
}

/* The kernel comes last, as its params make it long. */
static void print_table(const struct prewarm *p, double ms) {
  int i;
  printf("%-7s  %9s  %6s  %8s  %-8s  %s\n", "target", "registers", "shared", "ms", "result",
         "kernel");
  for (i = 0; i < p->num_jobs; i++) {
    const struct job *job = &p->jobs[i];
    const double spills = cli_json_number(job->result, "spill_bytes");
    printf("%-7s  %9.0f  %6.0f  %8.1f  %-8s  %s", job->arch,
           cli_json_number(job->result, "registers"), cli_json_number(job->result, "shared_bytes"),
           cli_json_number(job->result, "ms"), cli_json_string(job->result, "result"), job->title);
    if (spills > 0) printf(" (spills %.0f bytes)", spills);
    printf("\n");
  }
  printf("%d compiled, %d hit, %d failed in %.1f s\n", p->num_compiled, p->num_hit, p->num_failed,
         ms / 1e3);
}

static int print_json(struct prewarm *p, double ms, int code) {
  cJSON *root = cJSON_CreateObject();
  cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
  int i;
  for (i = 0; i < p->num_jobs; i++) {
    struct job *job = &p->jobs[i];
    cJSON_AddStringToObject(job->result, "kernel", job->title);
    cJSON_AddStringToObject(job->result, "target", job->arch);
    cJSON_AddItemToArray(kernels, job->result);
    job->result = NULL; /* handed over */
  }
  cJSON_AddNumberToObject(root, "compiled", p->num_compiled);
  cJSON_AddNumberToObject(root, "hit", p->num_hit);
  cJSON_AddNumberToObject(root, "failed", p->num_failed);
  cJSON_AddNumberToObject(root, "ms", ms);
  return cli_json_finish(root, code);
}

static int run_plan(struct prewarm *p) {
  const struct cli_pool pool = {
      .num_workers = p->options->jobs ? p->options->jobs : cli_pool_default_workers(),
      .num_jobs = p->num_jobs,
      .work = build,
      .done = built,
      .user = p};
  const double start = now_ms();
  double ms;
  int code;

  if (!cli_pool_run(&pool)) return CLI_FAILED;
  ms = now_ms() - start;
  code = p->num_failed > 0 ? CLI_FAILED : CLI_DONE;
  print_failures(p);
  if (p->options->json) return print_json(p, ms, code);
  print_table(p, ms);
  return code;
}

/* The spec paths given as operands, joined; NULL when out of memory. */
static char *join(char *const *paths, size_t num_paths) {
  size_t length = 1, i;
  char *joined, *end;
  for (i = 0; i < num_paths; i++) length += strlen(paths[i]) + 1;
  joined = end = calloc(1, length);
  for (i = 0; joined && i < num_paths; i++) {
    end += sprintf(end, "%s%s", i ? ":" : "", paths[i]);
  }
  return joined;
}

static int run(const struct cli_options *given) {
  struct cli_options options = *given;
  struct prewarm p = {.options = &options};
  char *paths = NULL;
  int code = CLI_FAILED, i;

  if (!cli_default_archs(&options)) return CLI_FAILED;
  if (options.num_operands > 0) {
    paths = join(options.operands, options.num_operands);
    if (!paths) return cli_fail("out of memory");
    options.spec_dirs = paths;
  }
  if (make_plan(&p)) code = run_plan(&p);
  for (i = 0; i < p.num_jobs; i++) {
    cJSON_Delete(p.jobs[i].result);
    cli_params_release(&p.jobs[i].params);
    free(p.jobs[i].op);
  }
  free(p.jobs);
  free(paths);
  return code;
}

const struct cli_command cli_prewarm = {
    .name = "prewarm",
    .usage = "[PATH ..]",
    .about = "Build every example of every spec into the cache, without a GPU",
    .help =
        "PATHs are spec files or folders; without them all operators that are loaded are\n"
        "built. Without --arch the target is that of the GPU. A table at the end has each\n"
        "kernel's registers and bytes of shared memory, the largest of its functions, and\n"
        "whether it was a hit or had to be compiled. With --no-compile, what the cache lacks\n"
        "fails. Exit code 1 if anything failed.\n",
    .shared = CLI_ARCH | CLI_SPECS | CLI_CACHE | CLI_BUILD | CLI_JOBS | CLI_JSON,
    .max_operands = -1,
    .run = run,
};
