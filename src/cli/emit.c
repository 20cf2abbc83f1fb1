/* SPDX-License-Identifier: MIT */
/* kiln emit: the CUDA source of a request. */
#include <stdio.h>

#include "cli/options.h"

static int run(const struct cli_options *options) {
  const kiln_request request = cli_request(options);
  kiln *k;
  char *source = NULL;
  int code = CLI_DONE;

  if (options->num_archs > 1) return cli_usage(options, "--arch: one target at a time");
  k = cli_open_to_look(options);
  if (!k) return CLI_FAILED;
  if (kiln_emit(k, &request, &source) == KILN_OK) {
    (void)fputs(source, stdout);
  } else {
    code = cli_fail_last();
  }
  kiln_free(source);
  kiln_close(k);
  return code;
}

const struct cli_command cli_emit = {
    .name = "emit",
    .usage = "OP [name=value ..]",
    .about = "Print the CUDA source of a request",
    .help =
        "The source is complete: it needs no header and compiles with\n"
        "'nvcc -arch=TARGET -cubin -x cu -'. Nothing is compiled here. Without --arch the\n"
        "target is that of the GPU, or sm_90a where there is none.\n",
    .shared = CLI_ARCH | CLI_SPECS | CLI_PARAMS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
