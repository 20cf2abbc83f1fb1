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
  const char *suite, *op, *params;
  const char *dims; /* values of integer scalars among them; a scalar that is not there is 1 */
  bool is_graph;    /* 100 nodes of one graph: launches too small for a stream */
};
extern const struct bench_case bench_cases[];
extern const size_t bench_num_cases;

/* Data for a tensor of indices, released by free; NULL if it is none. False without memory. */
bool bench_fill_indices(const kiln_arg_info *info, const kiln_dim *dims, size_t num_dims,
                        void **out);

/* Times of the host: answers from memory and disk, emit and compile. Adds "host" to `root`. */
bool bench_host(const struct cli_options *options, cJSON *root);

#endif
