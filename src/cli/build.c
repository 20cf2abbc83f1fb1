/* SPDX-License-Identifier: MIT */
/* kiln build: one request into the cache, with what its functions take. */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

void cli_print_kernel(const cJSON *kernel) {
  const cJSON *item;
  int width = 8;

  printf("%s\n", cli_json_string(kernel, "canonical"));
  printf("target %s, from %s", cli_json_string(kernel, "target"),
         cli_json_string(kernel, "origin"));
  printf(", compiled in %.1f ms\nkey %s\n", cli_json_number(kernel, "compile_ms"),
         cli_json_string(kernel, "key"));
  item = cJSON_GetObjectItemCaseSensitive(kernel, "row_held");
  if (item) printf("a row waits %s\n", item->valuestring);
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(kernel, "functions")) {
    const int length = (int)strlen(cli_json_string(item, "name"));
    if (length > width) width = length;
  }
  printf("%-*s  %9s  %6s  %6s  %11s\n", width, "function", "registers", "spills", "shared",
         "max threads");
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(kernel, "functions")) {
    printf("%-*s  %9.0f  %6.0f  %6.0f  %11.0f\n", width, cli_json_string(item, "name"),
           cli_json_number(item, "registers"), cli_json_number(item, "spill_bytes"),
           cli_json_number(item, "shared_bytes"), cli_json_number(item, "max_threads"));
  }
}

/* The kernel's JSON for one target; NULL after a message. */
static cJSON *build_one(const struct cli_options *options, const char *arch) {
  const kiln_request request = cli_request(options);
  kiln *k = cli_open(options, arch, 0);
  kiln_kernel *kernel = NULL;
  cJSON *json = NULL;

  if (!k) return NULL;
  if (kiln_get(k, &request, &kernel) == KILN_OK) {
    json = cli_json_kernel(kernel);
  } else {
    (void)cli_fail_last();
  }
  kiln_kernel_unref(kernel);
  kiln_close(k);
  return json;
}

static int run(const struct cli_options *given) {
  struct cli_options options = *given;
  cJSON *root, *kernels;
  int code = CLI_DONE;
  size_t i;

  if (!cli_default_archs(&options)) return CLI_FAILED;
  root = cJSON_CreateObject();
  kernels = cJSON_AddArrayToObject(root, "kernels");
  for (i = 0; i < options.num_archs; i++) {
    cJSON *kernel = build_one(&options, options.archs[i]);
    if (!kernel) {
      code = CLI_FAILED;
      continue;
    }
    if (!options.json) {
      if (i > 0) printf("\n");
      cli_print_kernel(kernel);
    }
    cJSON_AddItemToArray(kernels, kernel);
  }
  if (options.json) return cli_json_finish(root, code);
  cJSON_Delete(root);
  return code;
}

const struct cli_command cli_build = {
    .name = "build",
    .usage = "OP [name=value ..]",
    .about = "Build one request into the cache and show what it takes",
    .help = "Without --arch the target is that of the GPU. No GPU is needed with --arch.\n",
    .shared = CLI_ARCH | CLI_SPECS | CLI_CACHE | CLI_BUILD | CLI_JSON | CLI_PARAMS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
