/* SPDX-License-Identifier: MIT */
/* What the files of `kiln bench` share. */
#ifndef KILN_CLI_BENCH_H
#define KILN_CLI_BENCH_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include <kiln/kiln.h>

#include "cli/options.h"

/* One line of a suite: an operator, its params and run-time sizes as "name=value ..". */
struct bench_case {
  const char *suite, *op, *params, *dims;
  bool is_graph; /* 100 nodes of one graph: launches too small for a stream */
};
extern const struct bench_case bench_cases[];
extern const size_t bench_num_cases;

/* Times of the host: answers from memory and disk, emit and compile. Adds "host" to `root`. */
bool bench_host(const struct cli_options *options, cJSON *root);

#endif
