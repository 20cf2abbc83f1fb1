/* SPDX-License-Identifier: MIT */
/* The command's entry: finds the command by name, parses its options and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"

static const struct cli_command *const commands[] = {
    &cli_list,    &cli_show, &cli_check, &cli_emit,  &cli_build,
    &cli_prewarm, &cli_run,  &cli_bench, &cli_cache, &cli_doctor,
};
enum { NUM_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_overview(FILE *out) {
  int i;
  fprintf(out,
          "usage: kiln COMMAND [options]\n\n"
          "CUDA kernels from YAML specs, compiled at run time and cached on disk.\n\n"
          "commands:\n");
  for (i = 0; i < NUM_COMMANDS; i++) {
    fprintf(out, "  %-8s  %s\n", commands[i]->name, commands[i]->about);
  }
  fprintf(out,
          "\n'kiln COMMAND --help' tells about one. Params are given as name=value.\n"
          "Exit codes: 0 done, 1 could not, 2 wrong usage.\n");
}

static const struct cli_command *find(const char *name) {
  const char *names[NUM_COMMANDS];
  const char *near;
  int i;

  for (i = 0; i < NUM_COMMANDS; i++) {
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
    names[i] = commands[i]->name;
  }
  near = cli_nearest(name, names, NUM_COMMANDS);
  fprintf(stderr, "kiln: there is no command '%s'%s%s%s\nTry 'kiln --help'.\n", name,
          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  return NULL;
}

/* Data that did not reach stdout is a failure, whatever the command thought. */
static int finish(int code) {
  if (fflush(stdout) != 0 || ferror(stdout)) {
    if (code == CLI_DONE) code = cli_fail("cannot write to stdout");
  }
  return code;
}

int main(int argc, char **argv) {
  const struct cli_command *command;
  struct cli_options options;
  bool help = false;
  int code;

  if (argc < 2) {
    print_overview(stderr);
    return CLI_USAGE;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("%s\n", kiln_version());
    return finish(CLI_DONE);
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
      (strcmp(argv[1], "help") == 0 && argc == 2)) {
    print_overview(stdout);
    return finish(CLI_DONE);
  }
  if (strcmp(argv[1], "help") == 0) {
    command = find(argv[2]);
    if (!command) return CLI_USAGE;
    cli_print_help(command);
    return finish(CLI_DONE);
  }

  command = find(argv[1]);
  if (!command) return CLI_USAGE;
  code = cli_parse(command, argc - 1, argv + 1, &options, &help);
  if (code == CLI_DONE && help) {
    cli_print_help(command);
  } else if (code == CLI_DONE) {
    code = command->run(&options);
  }
  cli_options_release(&options);
  return finish(code);
}
