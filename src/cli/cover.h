/* SPDX-License-Identifier: MIT */
/* Choosing requests of an operator such that each pair of option values occurs in one of them. */
#ifndef KILN_CLI_COVER_H
#define KILN_CLI_COVER_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

enum { CLI_MAX_AXES = 24, CLI_MAX_VALUES = 16, CLI_WORD = 72 };

/* Something to choose: a param, or whether an optional argument is there. */
struct cli_axis {
  char name[CLI_WORD];
  char values[CLI_MAX_VALUES][CLI_WORD];
  int num_values;
};

struct cli_choice {
  uint8_t values[CLI_MAX_AXES]; /* an index for each axis */
};

struct cli_cover {
  const char *op;
  struct cli_axis axes[CLI_MAX_AXES];
  int num_axes;
  struct cli_choice *chosen;
  size_t num_chosen;
  size_t num_refused; /* combinations that the operator does not serve */
};

/* The covering set of the operator that `spec` (KILN_TEXT_SPEC) describes, with `size` for each int
   param that has no list of values. False after a message. */
bool cli_cover_make(kiln *k, const cJSON *spec, int64_t size, struct cli_cover *out);
void cli_cover_release(struct cli_cover *cover);
/* The params of a choice; `out` has room for CLI_MAX_AXES. Texts belong to the cover. */
size_t cli_cover_params(const struct cli_cover *cover, const struct cli_choice *choice,
                        kiln_param *out);

#endif
