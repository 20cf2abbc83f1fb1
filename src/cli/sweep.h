/* SPDX-License-Identifier: MIT */
/* `kiln run --all`: every operator over a covering set of its options, sizes, layouts and data. */
#ifndef KILN_CLI_SWEEP_H
#define KILN_CLI_SWEEP_H

#include "cli/options.h"

int cli_sweep(const struct cli_options *options);

#endif
