/* SPDX-License-Identifier: MIT */
/* One launch with made-up inputs and poisoned outputs, compared with the oracle. */
#ifndef KILN_CLI_TRIAL_H
#define KILN_CLI_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

#include "cli/device.h"
#include "oracle/oracle.h"

enum { CLI_POISON = 0xA5, CLI_MAX_DIMS = 16, CLI_MAX_TENSORS = 32 };

struct cli_trial {
  const kiln_kernel *kernel;
  const char *op;
  const kiln_param *params; /* what the kernel was asked for */
  size_t num_params;
  kiln_dim dims[CLI_MAX_DIMS];
  size_t num_dims;
  const struct kn_oracle_scalar *fixed; /* scalars that are not to be made up */
  size_t num_fixed;
  bool is_shifted; /* data one element behind alignment, and rows further apart where they may be */
  enum kn_fill fill;
  uint64_t seed;
};

/* A tensor on both sides: `host` mirrors all of `device`, guards around the data included. */
struct cli_buffer {
  void *device;
  uint8_t *host;
  uint64_t bytes, offset;          /* of the whole buffer; of the data in it */
  struct kn_oracle_tensor on_host; /* outputs: size_bytes takes in the guard behind */
  void *before;                    /* inout: what the data and the guard held before the launch */
};

/* What a launch works on. */
struct cli_setup {
  struct cli_device *device;
  const kiln_kernel *kernel;
  struct cli_buffer buffers[CLI_MAX_TENSORS];
  size_t num_buffers;
  kiln_arg args[CLI_MAX_TENSORS];
  size_t num_args;
  struct kn_oracle_scalar scalars[CLI_MAX_TENSORS];
  size_t num_scalars;
  kiln_dim dims[2 * CLI_MAX_DIMS]; /* of the trial, and integer scalars */
  size_t num_dims;
  kiln_launch_options options;
  uint8_t *workspace; /* on the host, with a guard behind what the options say */
};

/* Memory for the kernel's arguments, inputs not yet filled, and scalars. Ends in cli_setup_release,
   also after a failure, which is told in `message`. */
bool cli_setup_make(struct cli_setup *setup, struct cli_device *device,
                    const struct cli_trial *trial, char *message, size_t capacity);
void cli_setup_release(struct cli_setup *setup);
struct cli_buffer *cli_setup_find(struct cli_setup *setup, const char *name);
/* Fills all inputs as the trial says. */
void cli_setup_fill(struct cli_setup *setup, const struct cli_trial *trial);
/* Uploads the inputs, poisons the outputs and the workspace, launches, waits and downloads. */
bool cli_setup_launch(struct cli_setup *setup, char *message, size_t capacity);
/* Compares all outputs with the oracle. */
bool cli_setup_check(struct cli_setup *setup, const struct cli_trial *trial, uint64_t *compared,
                     char *message, size_t capacity);
/* Microseconds of one launch, negative on failure. */
double cli_setup_time_us(struct cli_setup *setup);

/* All of it; false with a message on failure. */
bool cli_trial_run(const struct cli_trial *trial, struct cli_device *device, uint64_t *compared,
                   char *message, size_t capacity);
/* "OP name=value .. size=value .., aligned" */
void cli_trial_title(const struct cli_trial *trial, char *out, size_t capacity);

#endif
