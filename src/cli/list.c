/* SPDX-License-Identifier: MIT */
/* kiln list: the operators. */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

static const char *kind(const cJSON *spec) {
  const char *template_name = cli_json_string(spec, "template");
  return template_name[0] ? template_name : "chain";
}

static int list_json(const kiln *k) {
  cJSON *root = cJSON_CreateObject();
  cJSON *operators = cJSON_AddArrayToObject(root, "operators");
  size_t i;

  for (i = 0; i < kiln_num_operators(k); i++) {
    cJSON *spec = cli_json_operator(k, kiln_operator_name(k, i));
    cJSON *row = cJSON_CreateObject();
    if (!spec) {
      cJSON_Delete(row);
      cJSON_Delete(root);
      return CLI_FAILED;
    }
    cJSON_AddStringToObject(row, "operator", kiln_operator_name(k, i));
    cJSON_AddStringToObject(row, "template", kind(spec));
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
    .shared = CLI_SPECS | CLI_JSON,
    .run = run,
};
