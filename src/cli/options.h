/* SPDX-License-Identifier: MIT */
/*
 * What every command of `kiln` shares: how a command declares itself, the parsed command line, and
 * how contexts are opened and faults are told. Data goes to stdout, everything else to stderr.
 */
#ifndef KILN_CLI_OPTIONS_H
#define KILN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/kiln.h>

/* Exit codes. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Shared options that a command takes, beside --help. */
enum {
  CLI_ARCH = 1,   /* --arch */
  CLI_JSON = 2,   /* --json */
  CLI_SPECS = 4,  /* --spec-dir */
  CLI_CACHE = 8,  /* --cache-dir */
  CLI_BUILD = 16, /* --no-cache, --no-compile, --nvrtc */
  CLI_JOBS = 32,  /* -j */
  CLI_PARAMS = 64 /* name=value operands are params, not files */
};

/* An option of one command: `--name` or, where `argument` is given, `--name ARGUMENT`. */
struct cli_own_option {
  const char *name;
  const char *argument; /* or NULL */
  const char *help;
};

enum { CLI_MAX_OWN = 16, CLI_MAX_ARCHS = 8 };

/* The command line after parsing; texts live as long as main. */
struct cli_options {
  const struct cli_command *command;
  char **operands; /* without name=value */
  size_t num_operands;
  kiln_param *params;
  size_t num_params;
  const char *archs[CLI_MAX_ARCHS]; /* from --arch; none if it was not given */
  size_t num_archs;
  const char *spec_dirs, *cache_dirs, *nvrtc; /* or NULL */
  bool json, no_cache, no_compile;
  int jobs;                     /* 0 if not given */
  const char *own[CLI_MAX_OWN]; /* value of each own option, "" for a flag; NULL if not given */
};

struct cli_command {
  const char *name;
  const char *usage;                /* operands: "OP [name=value ..]" */
  const char *about;                /* one line */
  const char *help;                 /* further lines, each ended by \n; or NULL */
  unsigned shared;                  /* CLI_ARCH | .. */
  int min_operands, max_operands;   /* -1: any number */
  const struct cli_own_option *own; /* ended by {0}; or NULL */
  int (*run)(const struct cli_options *options);
};

/* One for each command, in a file of its name. */
extern const struct cli_command cli_bench, cli_build, cli_cache, cli_check, cli_doctor, cli_emit,
    cli_list, cli_prewarm, cli_run, cli_show;

/* All targets, NULL-terminated. */
extern const char *const cli_targets[];

/* Parses what follows the command's name (argv[0]). CLI_DONE to go on, else the exit code after a
   message; sets *out_help and leaves the rest if help was asked for. cli_options_release frees. */
int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_options *out,
              bool *out_help);
void cli_options_release(struct cli_options *options);
void cli_print_help(const struct cli_command *command);

/* The value of an own option, "" for a flag that is set, NULL if it was not given. */
const char *cli_own(const struct cli_options *options, const char *name);
/* Reads an own option that is an integer in [min, max] into *out, which keeps its value if the
   option was not given. False after a message. */
bool cli_own_int(const struct cli_options *options, const char *name, int64_t min, int64_t max,
                 int64_t *out);

/* "kiln COMMAND: <text>" and a hint at --help on stderr; returns CLI_USAGE. */
int cli_usage(const struct cli_options *options, const char *format, ...);
/* "kiln: <text>" on stderr; returns CLI_FAILED. */
int cli_fail(const char *format, ...);
/* What went wrong, and for which request if that is not plain. */
struct cli_fault {
  const char *file; /* NULL or "": none */
  int line, column; /* 0: unknown */
  const char *message;
  const char *request, *target; /* or NULL */
  const char *log;              /* or NULL */
};
/* `file:line:column: message (request, target)` on stderr, then the log. */
void cli_print_fault(const struct cli_fault *fault);
/* The same of kiln_last_error; returns CLI_FAILED. */
int cli_fail_last(void);

/* Opens a context for `arch` without device, or with arch NULL for the device; `flags` are added to
   those of the command line. NULL after a message. */
kiln *cli_open(const struct cli_options *options, const char *arch, uint32_t flags);
/* The first of --arch, or that of the device, or sm_90a where there is no device: for what only
   looks. */
kiln *cli_open_to_look(const struct cli_options *options);
/* Sets --arch, if it was not given, to the device's target. False after a message. */
bool cli_default_archs(struct cli_options *options);
/* The request on the command line: the first operand and all params. */
kiln_request cli_request(const struct cli_options *options);

/* Of `count` names the one that `word` may have meant, or NULL. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

#endif
