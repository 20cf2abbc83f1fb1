/* SPDX-License-Identifier: MIT */
/* kiln list: the operators, and what runs them. */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

static const char *kind(const cJSON *spec) {
  const char *template_name = cli_json_string(spec, "template");
  return template_name[0] ? template_name : "chain";
}

/* Adds the template of one example of a chain to `names`, unless it is there. An example that the
   operator does not serve has none: `kiln check` tells of it. */
static bool add_template(kiln *k, const char *op, const cJSON *example, cJSON *names) {
  static const char mark[] = "\n#line 1 \"";
  struct cli_params params;
  kiln_request request;
  char *source = NULL;
  const cJSON *name;

  if (!cli_params_read(example, &params)) return false;
  kiln_request_init(&request);
  request.op = op;
  request.params = params.items;
  request.num_params = params.count;
  if (kiln_emit(k, &request, &source) == KILN_OK) {
    /* The template is the last file of an emitted source. */
    char *found = NULL, *end;
    for (char *at = strstr(source, mark); at; at = strstr(at + 1, mark)) found = at;
    if (found && (end = strchr(found += sizeof mark - 1, '"')) != NULL) {
      *end = '\0';
      cJSON_ArrayForEach(name, names) {
        if (strcmp(name->valuestring, found) == 0) break;
      }
      if (!name) cJSON_AddItemToArray(names, cJSON_CreateString(found));
    }
  }
  kiln_free(source);
  cli_params_release(&params);
  return true;
}

/* The template that an operator names, or those that the examples of a chain come to. */
static cJSON *templates(kiln *k, const char *op, const cJSON *spec) {
  cJSON *names = cJSON_CreateArray();
  const char *own = cli_json_string(spec, "template");
  const cJSON *example;

  if (own[0]) {
    cJSON_AddItemToArray(names, cJSON_CreateString(own));
    return names;
  }
  cJSON_ArrayForEach(example, cJSON_GetObjectItemCaseSensitive(spec, "examples")) {
    if (add_template(k, op, example, names)) continue;
    cJSON_Delete(names);
    return NULL;
  }
  return names;
}

static int list_json(kiln *k) {
  cJSON *root = cJSON_CreateObject();
  cJSON *operators = cJSON_AddArrayToObject(root, "operators");
  size_t i;

  for (i = 0; i < kiln_num_operators(k); i++) {
    const char *op = kiln_operator_name(k, i);
    cJSON *spec = cli_json_operator(k, op);
    cJSON *names = spec ? templates(k, op, spec) : NULL;
    cJSON *row;
    if (!names) {
      cJSON_Delete(spec);
      cJSON_Delete(root);
      return CLI_FAILED;
    }
    row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "operator", op);
    cJSON_AddStringToObject(row, "template", kind(spec));
    cJSON_AddItemToObject(row, "templates", names);
    cJSON_AddStringToObject(row, "about", cli_json_string(spec, "about"));
    cJSON_AddStringToObject(row, "file", cli_json_string(spec, "file"));
    cJSON_AddItemToArray(operators, row);
    cJSON_Delete(spec);
  }
  return cli_json_finish(root, CLI_DONE);
}

static int list_table(const kiln *k) {
  int width = 8;
  size_t i;

  for (i = 0; i < kiln_num_operators(k); i++) {
    const int length = (int)strlen(kiln_operator_name(k, i));
    if (length > width) width = length;
  }
  for (i = 0; i < kiln_num_operators(k); i++) {
    cJSON *spec = cli_json_operator(k, kiln_operator_name(k, i));
    if (!spec) return CLI_FAILED;
    printf("%-*s  %-14s  %s\n", width, kiln_operator_name(k, i), kind(spec),
           cli_json_string(spec, "about"));
    cJSON_Delete(spec);
  }
  return CLI_DONE;
}

static int run(const struct cli_options *options) {
  kiln *k = cli_open(options, cli_targets[0], KILN_NO_CACHE);
  int code;
  if (!k) return CLI_FAILED;
  code = options->json ? list_json(k) : list_table(k);
  kiln_close(k);
  return code;
}

const struct cli_command cli_list = {
    .name = "list",
    .usage = "",
    .about = "List the operators with their template",
    .help =
        "A chain's template follows from the request: --json has those that the spec's examples\n"
        "come to, as templates.\n",
    .shared = CLI_SPECS | CLI_JSON,
    .run = run,
};
