/* SPDX-License-Identifier: MIT */
/* kiln cache: what is in the cache. */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/options.h"

enum { MAX_TARGETS = 16 };

struct totals {
  const char *target;
  int entries, damaged;
  double bytes;
};

static void add(struct totals *totals, const cJSON *entry) {
  totals->entries++;
  totals->bytes += cli_json_number(entry, "bytes");
  if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(entry, "valid"))) totals->damaged++;
}

/* Sums by target; the last row is the sum of all. Returns the number of rows. */
static int sum_up(const cJSON *entries, struct totals *rows) {
  struct totals all = {.target = "all"};
  const cJSON *entry;
  int count = 0, i;
  cJSON_ArrayForEach(entry, entries) {
    const char *target = cli_json_string(entry, "target");
    for (i = 0; i < count && strcmp(rows[i].target, target) != 0; i++) continue;
    if (i == count && count < MAX_TARGETS) rows[count++] = (struct totals){.target = target};
    if (i < MAX_TARGETS) add(&rows[i], entry);
    add(&all, entry);
  }
  rows[count] = all;
  return count + 1;
}

static int stats(const cJSON *cache, const struct cli_options *options) {
  struct totals rows[MAX_TARGETS + 1];
  const int count = sum_up(cJSON_GetObjectItemCaseSensitive(cache, "entries"), rows);
  const cJSON *root;
  cJSON *out, *targets;
  int i;

  if (!options->json) {
    cJSON_ArrayForEach(root, cJSON_GetObjectItemCaseSensitive(cache, "roots")) {
      printf("root %s\n", root->valuestring);
    }
    printf("%-8s  %7s  %10s  %7s\n", "target", "entries", "KiB", "damaged");
    for (i = 0; i < count; i++) {
      printf("%-8s  %7d  %10.1f  %7d\n", rows[i].target, rows[i].entries, rows[i].bytes / 1024,
             rows[i].damaged);
    }
    return CLI_DONE;
  }
  out = cJSON_CreateObject();
  cJSON_AddItemToObject(out, "roots",
                        cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(cache, "roots"), true));
  cJSON_AddNumberToObject(out, "rejected_roots", cli_json_number(cache, "rejected_roots"));
  targets = cJSON_AddArrayToObject(out, "targets");
  for (i = 0; i < count; i++) {
    cJSON *row = i + 1 < count ? cJSON_CreateObject() : out;
    if (i + 1 < count) cJSON_AddStringToObject(row, "target", rows[i].target);
    cJSON_AddNumberToObject(row, "entries", rows[i].entries);
    cJSON_AddNumberToObject(row, "bytes", rows[i].bytes);
    cJSON_AddNumberToObject(row, "damaged", rows[i].damaged);
    if (i + 1 < count) cJSON_AddItemToArray(targets, row);
  }
  return cli_json_finish(out, CLI_DONE);
}

static int list(cJSON *cache, const struct cli_options *options) {
  const cJSON *entry;
  if (options->json) return cli_json_finish(cJSON_Duplicate(cache, true), CLI_DONE);
  cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(cache, "entries")) {
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(entry, "facts");
    const bool valid = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(entry, "valid"));
    printf("%-7s  %.12s  %s  %8.1f KiB  %s\n", cli_json_string(entry, "target"),
           cli_json_string(entry, "key"), cli_json_string(entry, "nvrtc_id"),
           cli_json_number(entry, "bytes") / 1024,
           valid ? cli_json_string(facts, "request") : "damaged");
  }
  return CLI_DONE;
}

static int run(const struct cli_options *options) {
  const bool is_list = strcmp(options->operands[0], "list") == 0;
  cJSON *cache = NULL;
  char *text = NULL;
  int code = CLI_FAILED;
  kiln *k;

  if (!is_list && strcmp(options->operands[0], "stats") != 0) {
    return cli_usage(options, "'%s' is neither stats nor list", options->operands[0]);
  }
  k = cli_open(options, cli_targets[0], KILN_NO_COMPILE); /* which writes nothing */
  if (!k) return CLI_FAILED;
  if (kiln_context_text(k, KILN_TEXT_CACHE, &text) != KILN_OK) {
    (void)cli_fail_last();
  } else {
    cache = cli_json_parse(text);
  }
  if (cache) code = is_list ? list(cache, options) : stats(cache, options);
  cJSON_Delete(cache);
  kiln_close(k);
  return code;
}

const struct cli_command cli_cache = {
    .name = "cache",
    .usage = "stats|list",
    .about = "Show how much the cache holds, or every entry of it",
    .help =
        "Every entry is read and verified; one that is damaged is told as such. Nothing is\n"
        "changed.\n",
    .shared = CLI_CACHE | CLI_JSON,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
