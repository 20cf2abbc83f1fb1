/* SPDX-License-Identifier: MIT */
/* kiln doctor: what is found on this machine and what is missing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

struct doctor {
  const struct cli_options *options;
  cJSON *checks;
};

static void tell(struct doctor *d, bool ok, const char *what, const char *format, ...) {
  char detail[4096];
  cJSON *check;
  va_list args;

  va_start(args, format);
  (void)vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  if (!d->options->json) printf("%-7s  %-8s  %s\n", ok ? "ok" : "problem", what, detail);
  check = cJSON_CreateObject();
  cJSON_AddStringToObject(check, "what", what);
  cJSON_AddBoolToObject(check, "ok", ok);
  cJSON_AddStringToObject(check, "detail", detail);
  cJSON_AddItemToArray(d->checks, check);
}

static void tell_last(struct doctor *d, const char *what, const char *subject) {
  const kiln_error *error = kiln_last_error();
  const bool has_log = error->log && error->log[0];
  tell(d, false, what, "%s%s%s%s%s", subject, subject[0] ? ": " : "", error->message,
       has_log ? "\n" : "", has_log ? error->log : "");
}

/* The context's facts as JSON; NULL after a message. */
static cJSON *facts(struct doctor *d, kiln *k) {
  char *text = NULL;
  if (kiln_context_text(k, KILN_TEXT_CONTEXT, &text) != KILN_OK) {
    tell_last(d, "context", "");
    return NULL;
  }
  return cli_json_parse(text);
}

/* The kernel that is compiled as a trial: the copy, or where the specs given have none, the first
   example there is. Its operator stays in *out_op; NULL if there is no example at all. */
static cJSON *find_trial(const kiln *k, const char **out_op) {
  const size_t count = kiln_num_operators(k);
  cJSON *example = NULL;
  size_t i, copy = 0;

  for (i = 0; i < count; i++) {
    if (strcmp(kiln_operator_name(k, i), "copy") == 0) copy = i;
  }
  for (i = 0; i < count && !example; i++) {
    cJSON *spec;
    *out_op = kiln_operator_name(k, (copy + i) % count);
    spec = cli_json_operator(k, *out_op);
    example = cJSON_DetachItemFromArray(cJSON_GetObjectItemCaseSensitive(spec, "examples"), 0);
    cJSON_Delete(spec);
  }
  return example;
}

/* Compiles a small spec for a target, past the cache. */
static bool try_compile(struct doctor *d, const char *arch) {
  kiln *k = cli_open(d->options, arch, KILN_NO_CACHE);
  kiln_kernel *kernel = NULL;
  struct cli_params params = {0};
  kiln_request request;
  cJSON *example, *json;
  bool ok;

  if (!k) return false;
  kiln_request_init(&request);
  example = find_trial(k, &request.op);
  ok = example && cli_params_read(example, &params);
  request.params = params.items;
  request.num_params = params.count;
  if (!ok) {
    tell(d, false, "compile", "%s: no spec has an example to try", arch);
  } else if (kiln_get(k, &request, &kernel) == KILN_OK) {
    json = cli_json_kernel(kernel);
    tell(d, true, "compile", "%s, %s in %.1f ms", arch, request.op,
         cli_json_number(json, "compile_ms"));
    cJSON_Delete(json);
  } else {
    tell_last(d, "compile", arch);
    ok = false;
  }
  cJSON_Delete(example);
  cli_params_release(&params);
  kiln_kernel_unref(kernel);
  kiln_close(k);
  return ok;
}

static void check_device(struct doctor *d) {
  const cJSON *device;
  kiln_options o;
  kiln *k = NULL;
  cJSON *json;
  int compute;

  kiln_options_init(&o);
  o.flags = KILN_NO_CACHE;
  if (kiln_open(&o, &k) != KILN_OK) {
    tell_last(d, "device", "");
    return;
  }
  json = facts(d, k);
  device = cJSON_GetObjectItemCaseSensitive(json, "device");
  compute = (int)cli_json_number(device, "compute");
  tell(d, true, "device", "%s, compute capability %d.%d, %.0f SMs, target %s",
       cli_json_string(device, "name"), compute / 10, compute % 10,
       cli_json_number(device, "num_sms"), kiln_arch(k));
  cJSON_Delete(json);
  kiln_close(k);
}

static void check_nvrtc(struct doctor *d, const cJSON *json) {
  const cJSON *nvrtc = cJSON_GetObjectItemCaseSensitive(json, "nvrtc");
  if (cJSON_IsObject(nvrtc)) {
    const int version = (int)cli_json_number(nvrtc, "version");
    tell(d, true, "NVRTC", "%d.%d at %s, id %s", version / 1000, version % 1000 / 10,
         cli_json_string(nvrtc, "path"), cli_json_string(nvrtc, "id"));
  } else {
    tell(d, false, "NVRTC", "%s", cli_json_string(json, "nvrtc_error"));
  }
}

static void check_cache(struct doctor *d, kiln *k, const cJSON *json) {
  const char *root = cli_json_string(json, "cache_root");
  kiln_stats stats;
  kiln_stats_init(&stats);
  (void)kiln_get_stats(k, &stats);
  if (root[0]) {
    tell(d, true, "cache", "%s", root);
  } else {
    tell(d, false, "cache", "no root can be written; see KILN_CACHE_DIR");
  }
  if (stats.rejected_roots > 0) {
    tell(d, false, "cache", "%llu roots are refused", (unsigned long long)stats.rejected_roots);
  }
}

static int run(const struct cli_options *options) {
  struct cli_options trial = *options;
  struct doctor d = {.options = &trial};
  cJSON *root = cJSON_CreateObject(), *json;
  int num_compiled = 0, code;
  kiln *k;
  size_t i;

  d.checks = cJSON_AddArrayToObject(root, "checks");
  tell(&d, true, "version", "%s", kiln_version());
  tell(&d, true, "targets", "%s, %s, %s, %s", cli_targets[0], cli_targets[1], cli_targets[2],
       cli_targets[3]);
  k = cli_open(options, cli_targets[0], 0);
  if (k) {
    json = facts(&d, k);
    tell(&d, true, "specs", "%zu operators", kiln_num_operators(k));
    check_nvrtc(&d, json);
    check_cache(&d, k, json);
    cJSON_Delete(json);
    kiln_close(k);
  } else {
    tell_last(&d, "specs", "");
  }
  for (i = 0; cli_targets[i]; i++) num_compiled += try_compile(&d, cli_targets[i]);
  check_device(&d);
  code = num_compiled > 0 ? CLI_DONE : CLI_FAILED;
  cJSON_AddBoolToObject(root, "ok", code == CLI_DONE);
  if (options->json) return cli_json_finish(root, code);
  cJSON_Delete(root);
  return code;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .usage = "",
    .about = "Tell what is found on this machine and what is missing",
    .help =
        "Looks for specs, NVRTC, the cache and a GPU, and compiles a small kernel for each\n"
        "target. Exit code 1 if none compiles; a missing GPU is told, but no failure.\n",
    .shared = CLI_SPECS | CLI_CACHE | CLI_BUILD | CLI_JSON,
    .run = run,
};
