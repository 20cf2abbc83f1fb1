/* SPDX-License-Identifier: MIT */
/* Specs and templates of the source tree, for tests of the planner and emitter. */
#ifndef KILN_TESTS_PLAN_HELP_H
#define KILN_TESTS_PLAN_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/asset.h"
#include "base/error.h"
#include "emit/emit.h"
#include "plan/plan.h"

static inline struct kn_spec *parse_spec(const char *file, const char *text) {
  struct kn_spec *spec = NULL;
  if (kn_spec_parse(file, text, strlen(text), &spec) != KILN_OK) {
    fail_msg("%s: %s", file, kn_error_last()->message);
  }
  return spec;
}

/* A shipped spec: "quant/per_token_cast". */
static inline struct kn_spec *shipped_spec(const char *name) {
  char path[256];
  (void)snprintf(path, sizeof path, "specs/%s.yaml", name);
  const struct kn_asset *asset = kn_asset_find(path);
  if (!asset) fail_msg("no %s", path);
  return parse_spec(path, asset->data);
}

/* "name=value .." as params; `text` is cut up. */
static inline size_t split_params(char *text, kiln_param *out, size_t capacity) {
  size_t count = 0;
  for (char *word = strtok(text, " "); word && count < capacity; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    if (!equals) fail_msg("'%s' is no param", word);
    *equals = '\0';
    out[count++] = (kiln_param){word, equals + 1};
  }
  return count;
}

/* Plans `params`; NULL where that is refused. */
static inline struct kn_plan *make_plan(const struct kn_spec *spec, const char *target,
                                        const char *params) {
  char text[512];
  kiln_param items[32];
  struct kn_plan *plan = NULL;
  (void)snprintf(text, sizeof text, "%s", params);
  size_t count = split_params(text, items, 32);
  kn_error_clear();
  (void)kn_plan_make(spec, kn_limits_find(target), items, count, &plan);
  return plan;
}

static inline const char *embedded_source(void *user, const char *path) {
  (void)user;
  const struct kn_asset *asset = kn_asset_find(path);
  return asset ? asset->data : NULL;
}

#endif
