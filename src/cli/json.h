/* SPDX-License-Identifier: MIT */
/* Reading the JSON that Kiln's KILN_TEXT_* calls give, and writing --json output. */
#ifndef KILN_CLI_JSON_H
#define KILN_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <cJSON.h>
#include <kiln/kiln.h>

/* Parses and kiln_frees a text of the library; NULL after a message. */
cJSON *cli_json_parse(char *text);
/* KILN_TEXT_SPEC of an operator, parsed; NULL after a message. */
cJSON *cli_json_operator(const kiln *k, const char *op);
/* KILN_TEXT_KERNEL of a kernel, parsed; NULL after a message. */
cJSON *cli_json_kernel(const kiln_kernel *kernel);

/* The text of member `name`: a string as it is, "" if it is absent or null. */
const char *cli_json_string(const cJSON *object, const char *name);
double cli_json_number(const cJSON *object, const char *name); /* 0 if absent */

/* Writes a string, number or bool as one would type it, an array as "a, b"; cuts at capacity. */
void cli_json_plain(const cJSON *value, char *out, size_t capacity);

/* Params from an object as the spec's examples are: {"hidden": 7168, "fmt": "e4m3"}. */
struct cli_params {
  kiln_param *items;
  size_t count;
  char *texts; /* behind items */
};
bool cli_params_read(const cJSON *object, struct cli_params *out);
void cli_params_release(struct cli_params *params);
/* "OP name=value .." */
void cli_params_title(const char *op, const struct cli_params *params, char *out, size_t capacity);

/* The most that any function of a kernel (KILN_TEXT_KERNEL) takes. */
struct cli_resources {
  int registers, spill_bytes, shared_bytes;
};
void cli_json_resources(const cJSON *kernel, struct cli_resources *out);

/* Prints KILN_TEXT_KERNEL for people. */
void cli_print_kernel(const cJSON *kernel);

/* Prints `root` on stdout, frees it, and returns `code`, or CLI_FAILED when out of memory. */
int cli_json_finish(cJSON *root, int code);

#endif
