/* SPDX-License-Identifier: MIT */
/* kiln show: an operator as its spec has it; with params, the kernel that serves them too. */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

enum { PLAIN_BYTES = 512 };

static const cJSON *member(const cJSON *object, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNull(value) ? NULL : value;
}

static bool is_set(const cJSON *object, const char *name) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

/* "  separator label value" if the member is there and not empty. */
static void print_member(const cJSON *object, const char *name, const char *format) {
  char plain[PLAIN_BYTES];
  const cJSON *value = member(object, name);
  if (!value || (cJSON_IsArray(value) && cJSON_GetArraySize(value) == 0)) return;
  cli_json_plain(value, plain, sizeof plain);
  printf(format, plain);
}

static int name_width(const cJSON *array) {
  const cJSON *item;
  int width = 0;
  cJSON_ArrayForEach(item, array) {
    const int length = (int)strlen(cli_json_string(item, "name"));
    if (length > width) width = length;
  }
  return width;
}

static void print_params(const cJSON *params) {
  const int width = name_width(params);
  const cJSON *item;
  if (cJSON_GetArraySize(params) > 0) printf("\nparams\n");
  cJSON_ArrayForEach(item, params) {
    printf("  %-*s  %-5s", width, cli_json_string(item, "name"), cli_json_string(item, "type"));
    print_member(item, "min", "  at least %s");
    print_member(item, "max", "  at most %s");
    if (cli_json_number(item, "multiple_of") > 1) {
      print_member(item, "multiple_of", "  a multiple of %s");
    }
    print_member(item, "one_of", "  one of %s");
    print_member(item, "default", "  default %s");
    printf("\n");
  }
}

static void print_tensors(const cJSON *tensors) {
  const int width = name_width(tensors);
  const cJSON *item;
  if (cJSON_GetArraySize(tensors) > 0) printf("\ntensors\n");
  cJSON_ArrayForEach(item, tensors) {
    printf("  %-*s  %-5s", width, cli_json_string(item, "name"), cli_json_string(item, "role"));
    print_member(item, "dtype", "  %s");
    print_member(item, "shape", "  [%s]");
    print_member(item, "sf_of", "  scale factors of %s");
    print_member(item, "block", "  block [%s]");
    print_member(item, "strides", "  strides [%s]");
    if (is_set(item, "list")) printf("  a list");
    if (is_set(item, "optional")) printf("  optional");
    printf("\n");
  }
}

static void print_scalars(const cJSON *scalars) {
  const int width = name_width(scalars);
  const cJSON *item;
  if (cJSON_GetArraySize(scalars) > 0) printf("\nscalars\n");
  cJSON_ArrayForEach(item, scalars) {
    printf("  %-*s  %s%s\n", width, cli_json_string(item, "name"), cli_json_string(item, "type"),
           is_set(item, "optional") ? "  optional" : "");
  }
}

static void print_lines(const cJSON *lines, const char *heading) {
  char plain[PLAIN_BYTES];
  const cJSON *item;
  if (cJSON_GetArraySize(lines) > 0) printf("\n%s\n", heading);
  cJSON_ArrayForEach(item, lines) {
    cli_json_plain(item, plain, sizeof plain);
    printf("  %s\n", plain);
  }
}

/* Members of an object, "name value" a line. */
static void print_members(const cJSON *object, const char *heading) {
  char plain[PLAIN_BYTES];
  const cJSON *item;
  if (cJSON_GetArraySize(object) > 0) printf("\n%s\n", heading);
  cJSON_ArrayForEach(item, object) {
    cli_json_plain(item, plain, sizeof plain);
    printf("  %s  %s\n", item->string, plain);
  }
}

static void print_examples(const char *op, const cJSON *examples) {
  char title[PLAIN_BYTES];
  const cJSON *item;
  if (cJSON_GetArraySize(examples) > 0) printf("\nexamples\n");
  cJSON_ArrayForEach(item, examples) {
    struct cli_params params;
    if (!cli_params_read(item, &params)) return;
    cli_params_title(op, &params, title, sizeof title);
    printf("  %s\n", title);
    cli_params_release(&params);
  }
}

static void print_operator(const cJSON *spec) {
  const char *op = cli_json_string(spec, "operator");
  printf("%s\n", op);
  print_member(spec, "about", "  %s\n");
  print_member(spec, "file", "  file %s\n");
  print_member(spec, "template", "  template %s\n");
  print_params(member(spec, "params"));
  print_lines(member(spec, "require"), "require");
  print_scalars(member(spec, "scalars"));
  print_tensors(member(spec, "tensors"));
  print_lines(member(spec, "chain"), "chain");
  print_members(member(spec, "tile"), "tile");
  print_members(member(spec, "tune"), "tune");
  print_member(spec, "workspace", "\nworkspace\n  %s\n");
  print_member(spec, "bytes", "\nbytes\n  %s\n");
  print_examples(op, member(spec, "examples"));
}

/* The kernel for the params on the command line; NULL after a message. */
static cJSON *get_kernel(const struct cli_options *options, kiln *k) {
  const kiln_request request = cli_request(options);
  kiln_kernel *kernel = NULL;
  cJSON *json = NULL;
  if (kiln_get(k, &request, &kernel) == KILN_OK) {
    json = cli_json_kernel(kernel);
  } else {
    (void)cli_fail_last();
  }
  kiln_kernel_unref(kernel);
  return json;
}

static int run(const struct cli_options *options) {
  cJSON *root, *spec, *kernel = NULL;
  int code = CLI_FAILED;
  kiln *k;

  if (options->num_archs > 1) return cli_usage(options, "--arch: one target at a time");
  k = options->num_params > 0 ? cli_open_to_look(options)
                              : cli_open(options, cli_targets[0], KILN_NO_CACHE);
  if (!k) return CLI_FAILED;
  spec = cli_json_operator(k, options->operands[0]);
  if (spec && options->num_params > 0) kernel = get_kernel(options, k);
  if (spec && (kernel || options->num_params == 0)) {
    code = CLI_DONE;
    if (options->json) {
      root = cJSON_CreateObject();
      cJSON_AddItemToObject(root, "spec", spec);
      if (kernel) cJSON_AddItemToObject(root, "kernel", kernel);
      spec = kernel = NULL; /* handed over */
      code = cli_json_finish(root, code);
    } else {
      print_operator(spec);
      if (kernel) {
        printf("\nkernel\n");
        cli_print_kernel(kernel);
      }
    }
  }
  cJSON_Delete(spec);
  cJSON_Delete(kernel);
  kiln_close(k);
  return code;
}

const struct cli_command cli_show = {
    .name = "show",
    .usage = "OP [name=value ..]",
    .about = "Describe an operator; with params, the kernel that serves them",
    .help =
        "The kernel comes from the cache, or is compiled. Without --arch the target is that\n"
        "of the GPU, or sm_90a where there is none.\n",
    .shared = CLI_ARCH | CLI_SPECS | CLI_CACHE | CLI_BUILD | CLI_JSON | CLI_PARAMS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
