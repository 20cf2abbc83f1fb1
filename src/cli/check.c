/* SPDX-License-Identifier: MIT */
/* kiln check: reads specs and emits their examples for all targets, without compiling. */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

enum { TITLE_BYTES = 256 };

struct check {
  const struct cli_options *options;
  cJSON *report; /* of the file at hand, for --json */
  int num_requests, num_failed;
};

/* Tells the last error, with the request where there is one. */
static void tell(struct check *c, const char *file, const char *title, const char *arch) {
  const kiln_error *error = kiln_last_error();
  cJSON *fault = cJSON_CreateObject();

  c->num_failed++;
  cli_print_fault(&(struct cli_fault){.file = error->file ? error->file : file,
                                      .line = error->line,
                                      .column = error->column,
                                      .message = error->message,
                                      .request = title[0] ? title : NULL,
                                      .target = arch});
  cJSON_AddStringToObject(fault, "message", error->message);
  cJSON_AddStringToObject(fault, "file", error->file ? error->file : file);
  cJSON_AddNumberToObject(fault, "line", error->line);
  cJSON_AddNumberToObject(fault, "column", error->column);
  cJSON_AddStringToObject(fault, "request", title);
  cJSON_AddStringToObject(fault, "target", arch);
  cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(c->report, "faults"), fault);
}

static void check_request(struct check *c, kiln *k, const char *file, const char *op,
                          const cJSON *example) {
  char title[TITLE_BYTES], *source = NULL;
  struct cli_params params;
  kiln_request request;

  if (!cli_params_read(example, &params)) {
    c->num_failed++;
    return;
  }
  kiln_request_init(&request);
  request.op = op;
  request.params = params.items;
  request.num_params = params.count;
  c->num_requests++;
  cli_params_title(op, &params, title, sizeof title);
  if (kiln_emit(k, &request, &source) != KILN_OK) tell(c, file, title, kiln_arch(k));
  kiln_free(source);
  cli_params_release(&params);
}

/* One file for one target; false if it could not even be read, which is so for all targets. */
static bool check_target(struct check *c, const char *file, const char *arch) {
  kiln_options o;
  kiln *k = NULL;
  size_t i;

  kiln_options_init(&o);
  o.flags = KILN_NO_DEVICE | KILN_NO_CACHE | KILN_NO_COMPILE;
  o.arch = arch;
  o.spec_dirs = file;
  if (kiln_open(&o, &k) != KILN_OK) {
    tell(c, file, "", arch);
    return false;
  }
  for (i = 0; i < kiln_num_operators(k); i++) {
    const char *op = kiln_operator_name(k, i);
    cJSON *spec = cli_json_operator(k, op);
    const cJSON *example;
    if (!spec) c->num_failed++;
    cJSON_ArrayForEach(example, cJSON_GetObjectItemCaseSensitive(spec, "examples")) {
      check_request(c, k, file, op, example);
    }
    cJSON_Delete(spec);
  }
  kiln_close(k);
  return true;
}

static void check_file(struct check *c, const char *file) {
  const int failed_before = c->num_failed, requests_before = c->num_requests;
  const struct cli_options *options = c->options;
  size_t i;

  cJSON_AddStringToObject(c->report, "file", file);
  (void)cJSON_AddArrayToObject(c->report, "faults");
  if (options->num_archs > 0) {
    for (i = 0; i < options->num_archs; i++) {
      if (!check_target(c, file, options->archs[i])) break;
    }
  } else {
    for (i = 0; cli_targets[i]; i++) {
      if (!check_target(c, file, cli_targets[i])) break;
    }
  }
  cJSON_AddBoolToObject(c->report, "ok", c->num_failed == failed_before);
  cJSON_AddNumberToObject(c->report, "requests", c->num_requests - requests_before);
  if (!options->json && c->num_failed == failed_before) {
    printf("%s: ok, %d requests\n", file, c->num_requests - requests_before);
  }
}

static int run(const struct cli_options *options) {
  struct check c = {.options = options};
  cJSON *root = cJSON_CreateObject();
  cJSON *files = cJSON_AddArrayToObject(root, "files");
  int code;
  size_t i;

  for (i = 0; i < options->num_operands; i++) {
    c.report = cJSON_CreateObject();
    check_file(&c, options->operands[i]);
    cJSON_AddItemToArray(files, c.report);
  }
  code = c.num_failed > 0 ? CLI_FAILED : CLI_DONE;
  cJSON_AddNumberToObject(root, "failed", c.num_failed);
  if (options->json) return cli_json_finish(root, code);
  cJSON_Delete(root);
  return code;
}

const struct cli_command cli_check = {
    .name = "check",
    .usage = "FILE ..",
    .about = "Read specs and emit their examples, without compiling",
    .help =
        "FILEs are specs or folders of specs. What is wrong is told on stderr as\n"
        "file:line:column: message; exit code 1 then. Without --arch all targets are tried.\n",
    .shared = CLI_ARCH | CLI_JSON,
    .min_operands = 1,
    .max_operands = -1,
    .run = run,
};
