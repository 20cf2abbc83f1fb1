/* SPDX-License-Identifier: MIT */
/* `kiln run --golden`: recorded inputs through the device, compared with recorded outputs. */
#ifndef KILN_CLI_REPLAY_H
#define KILN_CLI_REPLAY_H

#include "cli/options.h"

/* The operands are files. */
int cli_replay(const struct cli_options *options);

#endif
