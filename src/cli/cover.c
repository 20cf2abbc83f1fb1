/* SPDX-License-Identifier: MIT */
#include "cli/cover.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

enum { MAX_COMBINATIONS = 1 << 14, MAX_SAMPLES = 1 << 12 };

/* ---- axes ---- */

static void add_value(struct cli_axis *axis, const char *value) {
  for (int i = 0; i < axis->num_values; ++i) {
    if (strcmp(axis->values[i], value) == 0) return;
  }
  if (axis->num_values == CLI_MAX_VALUES) return;
  (void)snprintf(axis->values[axis->num_values++], CLI_WORD, "%s", value);
}

static struct cli_axis *add_axis(struct cli_cover *cover, const char *prefix, const char *name) {
  struct cli_axis *axis;
  if (cover->num_axes == CLI_MAX_AXES) return NULL;
  axis = &cover->axes[cover->num_axes++];
  *axis = (struct cli_axis){.num_values = 0};
  (void)snprintf(axis->name, sizeof axis->name, "%s%.48s", prefix, name);
  return axis;
}

/* A list of values may name a param that has no list itself: then that is the size, unless the spec
   says what to try. */
static bool add_param(struct cli_cover *cover, const cJSON *param, const char *size) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(param, "one_of"), *item;
  const cJSON *sweep = cJSON_GetObjectItemCaseSensitive(param, "sweep");
  const bool is_int = strcmp(cli_json_string(param, "type"), "int") == 0;
  struct cli_axis *axis = add_axis(cover, "", cli_json_string(param, "name"));
  if (!axis) return false;
  if (list) {
    cJSON_ArrayForEach(item, list) {
      const char *text = item->valuestring;
      add_value(axis, is_int && !isdigit((unsigned char)text[0]) ? size : text);
    }
  } else if (sweep) {
    cJSON_ArrayForEach(item, sweep) {
      char text[32];
      (void)snprintf(text, sizeof text, "%.0f", item->valuedouble);
      add_value(axis, text);
    }
  } else if (is_int) {
    add_value(axis, size);
  } else {
    add_value(axis, "false");
    add_value(axis, "true");
  }
  return true;
}

static bool add_optional(struct cli_cover *cover, const cJSON *arguments) {
  const cJSON *item;
  cJSON_ArrayForEach(item, arguments) {
    struct cli_axis *axis;
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "optional"))) continue;
    axis = add_axis(cover, "present.", cli_json_string(item, "name"));
    if (!axis) return false;
    add_value(axis, "false");
    add_value(axis, "true");
  }
  return true;
}

static bool read_axes(struct cli_cover *cover, const cJSON *spec, int64_t size) {
  const cJSON *item;
  char text[32];
  (void)snprintf(text, sizeof text, "%" PRId64, size);
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(spec, "params")) {
    if (!add_param(cover, item, text)) return false;
  }
  return add_optional(cover, cJSON_GetObjectItemCaseSensitive(spec, "scalars")) &&
         add_optional(cover, cJSON_GetObjectItemCaseSensitive(spec, "tensors"));
}

size_t cli_cover_params(const struct cli_cover *cover, const struct cli_choice *choice,
                        kiln_param *out) {
  for (int i = 0; i < cover->num_axes; ++i) {
    out[i].name = cover->axes[i].name;
    out[i].value = cover->axes[i].values[choice->values[i]];
  }
  return (size_t)cover->num_axes;
}

/* ---- combinations ---- */

static double num_choices(const struct cli_cover *cover) {
  double count = 1;
  for (int i = 0; i < cover->num_axes; ++i) count *= cover->axes[i].num_values;
  return count;
}

/* One of more choices than can be tried. */
static void random_choice(const struct cli_cover *cover, uint64_t *state,
                          struct cli_choice *choice) {
  for (int i = 0; i < cover->num_axes; ++i) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    choice->values[i] = (uint8_t)((*state >> 33) % (uint64_t)cover->axes[i].num_values);
  }
}

/* Counts up; false behind the last one. */
static bool next_choice(const struct cli_cover *cover, struct cli_choice *choice) {
  for (int i = cover->num_axes - 1; i >= 0; --i) {
    if (++choice->values[i] < cover->axes[i].num_values) return true;
    choice->values[i] = 0;
  }
  return false;
}

/* Whether the operator serves a choice; *out_failed where that cannot be told. */
static bool serves(kiln *k, const struct cli_cover *cover, const struct cli_choice *choice,
                   bool *out_failed) {
  kiln_param params[CLI_MAX_AXES];
  kiln_request request;
  char *text = NULL;
  kiln_status status;
  kiln_request_init(&request);
  request.op = cover->op;
  request.params = params;
  request.num_params = cli_cover_params(cover, choice, params);
  status = kiln_key_text(k, &request, &text);
  kiln_free(text);
  *out_failed = status != KILN_OK && status != KILN_E_UNSUPPORTED && status != KILN_E_ARGUMENT;
  return status == KILN_OK;
}

static struct cli_choice *list_served(kiln *k, struct cli_cover *cover, size_t *out_count) {
  struct cli_choice *list = calloc(MAX_COMBINATIONS, sizeof *list);
  struct cli_choice choice = {{0}};
  const bool is_sampled = num_choices(cover) > MAX_COMBINATIONS;
  uint64_t state = 1;
  size_t count = 0, tried = 0;
  bool failed = false, more = true;
  if (!list) {
    (void)cli_fail("out of memory");
    return NULL;
  }
  do {
    if (is_sampled) random_choice(cover, &state, &choice);
    if (serves(k, cover, &choice, &failed)) {
      list[count++] = choice;
    } else if (failed) {
      (void)cli_fail_last();
    } else {
      ++cover->num_refused;
    }
    more = is_sampled ? ++tried < MAX_SAMPLES : next_choice(cover, &choice);
  } while (!failed && more);
  if (failed) {
    free(list);
    return NULL;
  }
  *out_count = count;
  return list;
}

/* ---- covering ---- */

/* Which pairs (axis, value; axis, value) occurred. */
struct pairs {
  bool seen[CLI_MAX_AXES][CLI_MAX_VALUES][CLI_MAX_AXES][CLI_MAX_VALUES];
};

static int new_pairs(const struct cli_cover *cover, struct pairs *pairs,
                     const struct cli_choice *choice, bool mark) {
  int count = 0;
  for (int i = 0; i < cover->num_axes; ++i) {
    for (int j = i; j < cover->num_axes; ++j) {
      bool *seen = &pairs->seen[i][choice->values[i]][j][choice->values[j]];
      count += !*seen;
      if (mark) *seen = true;
    }
  }
  return count;
}

/* Greedy: always the choice with most pairs that did not occur yet. */
static bool choose(struct cli_cover *cover, const struct cli_choice *served, size_t num_served) {
  struct pairs *pairs = calloc(1, sizeof *pairs);
  cover->chosen = calloc(num_served + 1, sizeof *cover->chosen);
  if (!pairs || !cover->chosen) {
    free(pairs);
    (void)cli_fail("out of memory");
    return false;
  }
  while (cover->num_chosen < num_served) {
    size_t best = 0;
    int most = 0;
    for (size_t i = 0; i < num_served; ++i) {
      const int count = new_pairs(cover, pairs, &served[i], false);
      if (count > most) {
        most = count;
        best = i;
      }
    }
    if (most == 0 && (cover->num_axes > 0 || cover->num_chosen > 0)) break;
    (void)new_pairs(cover, pairs, &served[best], true);
    cover->chosen[cover->num_chosen++] = served[best];
  }
  free(pairs);
  return true;
}

bool cli_cover_make(kiln *k, const cJSON *spec, int64_t size, struct cli_cover *out) {
  struct cli_choice *served;
  size_t num_served = 0;
  bool good;
  *out = (struct cli_cover){.op = cli_json_string(spec, "operator")};
  if (!read_axes(out, spec, size)) {
    (void)cli_fail("%s has more than %d options", out->op, CLI_MAX_AXES);
    return false;
  }
  served = list_served(k, out, &num_served);
  if (!served) return false;
  good = choose(out, served, num_served);
  free(served);
  return good;
}

void cli_cover_release(struct cli_cover *cover) {
  free(cover->chosen);
  cover->chosen = NULL;
}
