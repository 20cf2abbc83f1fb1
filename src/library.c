/* SPDX-License-Identifier: MIT */
#include "library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/asset.h"
#include "base/error.h"
#include "base/file.h"

enum { MAX_TEMPLATE_BYTES = 1 << 20 };

static kiln_status add_spec(struct kn_library *library, struct kn_spec *spec) {
  size_t at = 0;
  while (at < library->num_specs && strcmp(library->specs[at]->name, spec->name) < 0) ++at;
  if (at < library->num_specs && strcmp(library->specs[at]->name, spec->name) == 0) {
    return kn_fail_at(KILN_E_SPEC, spec->file, spec->mark.line, spec->mark.column,
                      "operator '%s' is also in %s", spec->name, library->specs[at]->file);
  }
  if (library->num_specs == library->capacity) {
    size_t capacity = library->capacity ? library->capacity * 2 : 32;
    struct kn_spec **specs = realloc(library->specs, capacity * sizeof(struct kn_spec *));
    if (!specs) return kn_fail(KILN_E_MEMORY, "out of memory while loading specs");
    library->specs = specs;
    library->capacity = capacity;
  }
  memmove(&library->specs[at + 1], &library->specs[at],
          (library->num_specs - at) * sizeof(struct kn_spec *));
  library->specs[at] = spec;
  ++library->num_specs;
  return KILN_OK;
}

/* Keeps the text of a file that templates may name by `path`; a file that is not there is none. */
static kiln_status keep_template(struct kn_library *library, const char *file, const char *path) {
  struct kn_text text = {0};
  if (kn_table_find(&library->templates, path, strlen(path))) return KILN_OK;
  if (kn_file_read(file, MAX_TEMPLATE_BYTES, &text) != KILN_OK) {
    kn_error_clear();
    return KILN_OK;
  }
  char *data = kn_text_take(&text);
  if (data && kn_table_set(&library->templates, path, strlen(path), data)) return KILN_OK;
  free(data);
  return kn_fail(KILN_E_MEMORY, "out of memory while loading templates");
}

/* A template that is not built in lies beside its spec. */
static kiln_status add_own_template(struct kn_library *library, const struct kn_spec *spec) {
  char file[PATH_MAX], path[PATH_MAX];
  if (!spec->template_name) return KILN_OK;
  (void)snprintf(path, sizeof path, "templates/%s", spec->template_name);
  const char *slash = strrchr(spec->file, '/');
  if (kn_asset_find(path)) return KILN_OK;
  int length = snprintf(file, sizeof file, "%.*s%s", slash ? (int)(slash + 1 - spec->file) : 0,
                        spec->file, spec->template_name);
  if (length < 0 || (size_t)length >= sizeof file) return KILN_OK;
  return keep_template(library, file, path);
}

static kiln_status parse(struct kn_library *library, const char *file, const char *text,
                         size_t length) {
  struct kn_spec *spec = NULL;
  kiln_status status = kn_spec_parse(file, text, length, &spec);
  if (status == KILN_OK) {
    status = add_spec(library, spec);
    if (status != KILN_OK) kn_spec_free(spec);
  }
  if (status == KILN_OK) status = add_own_template(library, spec);
  return status;
}

static kiln_status visit_file(const char *path, void *user) {
  struct kn_text text = {0};
  kiln_status status = kn_file_read(path, KN_SPEC_MAX_BYTES, &text);
  if (status == KILN_OK) status = parse(user, path, text.data ? text.data : "", text.length);
  kn_text_release(&text);
  return status;
}

static kiln_status load_paths(struct kn_library *library, const char *paths) {
  kiln_status status = KILN_OK;
  while (*paths && status == KILN_OK) {
    size_t length = strcspn(paths, ":");
    char *path = strndup(paths, length);
    if (!path) return kn_fail(KILN_E_MEMORY, "out of memory while loading specs");
    if (length) status = kn_file_walk(path, ".yaml", visit_file, library);
    free(path);
    paths += length + (paths[length] == ':');
  }
  return status;
}

static kiln_status load_built_in(struct kn_library *library) {
  kiln_status status = KILN_OK;
  for (size_t i = 0; i < kn_num_assets && status == KILN_OK; ++i) {
    const struct kn_asset *asset = &kn_assets[i];
    if (strncmp(asset->path, "specs/", 6) != 0) continue;
    status = parse(library, asset->path, asset->data, asset->length);
  }
  return status;
}

static kiln_status visit_template(const char *file, void *user) {
  const char *path = NULL;
  for (const char *at = strstr(file, "/templates/"); at; at = strstr(at + 1, "/templates/")) {
    path = at + 1;
  }
  return path ? keep_template(user, file, path) : KILN_OK;
}

static kiln_status load_template_dir(struct kn_library *library) {
  char folder[PATH_MAX];
  const char *root = getenv("KILN_TEMPLATE_DIR");
  if (!root || !*root) return KILN_OK;
  (void)snprintf(folder, sizeof folder, "%s/templates", root);
  kiln_status status = kn_file_walk(folder, ".cu", visit_template, library);
  if (status == KILN_OK) status = kn_file_walk(folder, ".cuh", visit_template, library);
  return status;
}

kiln_status kn_library_open(const char *dirs, struct kn_library *out) {
  struct kn_library library = {0};
  kiln_status status = load_template_dir(&library);
  if (!dirs || !*dirs) dirs = getenv("KILN_SPEC_PATH");
  if (status == KILN_OK) {
    status = dirs && *dirs ? load_paths(&library, dirs) : load_built_in(&library);
  }
  if (status != KILN_OK) {
    kn_library_release(&library);
    return status;
  }
  *out = library;
  return KILN_OK;
}

static void free_value(void *value, void *user) {
  (void)user;
  free(value);
}

void kn_library_release(struct kn_library *library) {
  for (size_t i = 0; i < library->num_specs; ++i) kn_spec_free(library->specs[i]);
  free(library->specs);
  kn_table_each(&library->templates, free_value, NULL);
  kn_table_release(&library->templates);
  *library = (struct kn_library){0};
}

kiln_status kn_library_find(const struct kn_library *library, const char *op,
                            const struct kn_spec **out) {
  for (size_t i = 0; i < library->num_specs; ++i) {
    if (strcmp(library->specs[i]->name, op) != 0) continue;
    *out = library->specs[i];
    return KILN_OK;
  }
  const char **names = calloc(library->num_specs + 1, sizeof *names);
  for (size_t i = 0; names && i < library->num_specs; ++i) names[i] = library->specs[i]->name;
  const char *near = names ? kn_did_you_mean(op, names, library->num_specs) : NULL;
  kiln_status status =
      near ? kn_fail(KILN_E_NOT_FOUND, "there is no operator '%s'; did you mean %s?", op, near)
           : kn_fail(KILN_E_NOT_FOUND, "there is no operator '%s' among the %zu loaded", op,
                     library->num_specs);
  free(names);
  return status;
}

const char *kn_library_source(void *user, const char *path) {
  const struct kn_library *library = user;
  const char *text = kn_table_find(&library->templates, path, strlen(path));
  if (text) return text;
  const struct kn_asset *asset = kn_asset_find(path);
  return asset ? asset->data : NULL;
}
