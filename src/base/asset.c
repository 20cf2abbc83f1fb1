/* SPDX-License-Identifier: MIT */
#include "base/asset.h"

#include <stdlib.h>
#include <string.h>

static int compare_path(const void *path, const void *asset) {
  return strcmp(path, ((const struct kn_asset *)asset)->path);
}

const struct kn_asset *kn_asset_find(const char *path) {
  return bsearch(path, kn_assets, kn_num_assets, sizeof *kn_assets, compare_path);
}
