/* SPDX-License-Identifier: MIT */
#include "cli/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

cJSON *cli_json_parse(char *text) {
  cJSON *root = cJSON_Parse(text);
  kiln_free(text);
  if (!root) (void)cli_fail("the library gave JSON that does not parse, or memory ran out");
  return root;
}

cJSON *cli_json_operator(const kiln *k, const char *op) {
  char *text = NULL;
  if (kiln_operator_text(k, op, KILN_TEXT_SPEC, &text) != KILN_OK) {
    (void)cli_fail_last();
    return NULL;
  }
  return cli_json_parse(text);
}

cJSON *cli_json_kernel(const kiln_kernel *kernel) {
  char *text = NULL;
  if (kiln_kernel_text(kernel, KILN_TEXT_KERNEL, &text) != KILN_OK) {
    (void)cli_fail_last();
    return NULL;
  }
  return cli_json_parse(text);
}

const char *cli_json_string(const cJSON *object, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsString(value) ? value->valuestring : "";
}

double cli_json_number(const cJSON *object, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

void cli_json_plain(const cJSON *value, char *out, size_t capacity) {
  const cJSON *item;
  size_t used = 0;

  out[0] = '\0';
  if (cJSON_IsString(value)) {
    (void)snprintf(out, capacity, "%s", value->valuestring);
  } else if (cJSON_IsBool(value)) {
    (void)snprintf(out, capacity, "%s", cJSON_IsTrue(value) ? "true" : "false");
  } else if (cJSON_IsNumber(value)) {
    const bool whole = value->valuedouble == floor(value->valuedouble);
    (void)snprintf(out, capacity, whole ? "%.0f" : "%.17g", value->valuedouble);
  } else if (cJSON_IsArray(value)) {
    cJSON_ArrayForEach(item, value) {
      if (used > 0 && used + 2 < capacity) used += (size_t)sprintf(out + used, ", ");
      cli_json_plain(item, out + used, capacity - used);
      used += strlen(out + used);
    }
  }
}

bool cli_params_read(const cJSON *object, struct cli_params *out) {
  enum { MAX_TEXT = 128 };
  const size_t count = (size_t)cJSON_GetArraySize(object);
  const cJSON *item;
  size_t i = 0;

  *out = (struct cli_params){.count = count};
  out->items = calloc(count + 1, sizeof *out->items);
  out->texts = calloc(count + 1, 2 * MAX_TEXT);
  if (!out->items || !out->texts) {
    cli_params_release(out);
    (void)cli_fail("out of memory");
    return false;
  }
  cJSON_ArrayForEach(item, object) {
    char *name = out->texts + i * 2 * MAX_TEXT;
    (void)snprintf(name, MAX_TEXT, "%s", item->string);
    cli_json_plain(item, name + MAX_TEXT, MAX_TEXT);
    out->items[i].name = name;
    out->items[i++].value = name + MAX_TEXT;
  }
  return true;
}

void cli_params_release(struct cli_params *params) {
  free(params->items);
  free(params->texts);
  *params = (struct cli_params){0};
}

void cli_params_title(const char *op, const struct cli_params *params, char *out, size_t capacity) {
  size_t i, used = strlen(op);
  (void)snprintf(out, capacity, "%s", op);
  for (i = 0; i < params->count && used < capacity; i++) {
    (void)snprintf(out + used, capacity - used, " %s=%s", params->items[i].name,
                   params->items[i].value);
    used += strlen(out + used);
  }
}

void cli_json_resources(const cJSON *kernel, struct cli_resources *out) {
  const cJSON *item;
  int dynamic_bytes = 0;

  *out = (struct cli_resources){0, 0, 0};
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(kernel, "functions")) {
    const int registers = (int)cli_json_number(item, "registers");
    const int spill_bytes = (int)cli_json_number(item, "spill_bytes");
    const int shared_bytes = (int)cli_json_number(item, "shared_bytes");
    if (registers > out->registers) out->registers = registers;
    if (spill_bytes > out->spill_bytes) out->spill_bytes = spill_bytes;
    if (shared_bytes > out->shared_bytes) out->shared_bytes = shared_bytes;
  }
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(kernel, "steps")) {
    const int shared_bytes = (int)cli_json_number(item, "shared_bytes");
    if (shared_bytes > dynamic_bytes) dynamic_bytes = shared_bytes;
  }
  out->shared_bytes += dynamic_bytes;
}

int cli_json_finish(cJSON *root, int code) {
  char *text = root ? cJSON_Print(root) : NULL;
  cJSON_Delete(root);
  if (!text) return cli_fail("out of memory");
  printf("%s\n", text);
  cJSON_free(text);
  return code;
}
