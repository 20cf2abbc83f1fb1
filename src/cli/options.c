/* SPDX-License-Identifier: MIT */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cli_targets[] = {"sm_90a", "sm_100a", "sm_100f", "sm_103a", NULL};

/* What getopt_long returns for each shared option; own options follow. */
enum {
  OPT_HELP = 'h',
  OPT_JOBS = 'j',
  OPT_ARCH = 256,
  OPT_JSON,
  OPT_SPECS,
  OPT_CACHE,
  OPT_NO_CACHE,
  OPT_NO_COMPILE,
  OPT_NVRTC,
  OPT_OWN
};

static const struct shared_option {
  unsigned needs; /* the bit of cli_command.shared */
  int value;
  const char *name, *argument, *help;
} shared_options[] = {
    {CLI_ARCH, OPT_ARCH, "arch", "LIST", "targets, separated by commas, or all"},
    {CLI_SPECS, OPT_SPECS, "spec-dir", "PATHS",
     "folders or files of specs, separated by colons; default: KILN_SPEC_PATH, then built-in"},
    {CLI_CACHE, OPT_CACHE, "cache-dir", "DIRS",
     "cache roots, separated by colons, the first is written; default: KILN_CACHE_DIR"},
    {CLI_BUILD, OPT_NO_CACHE, "no-cache", NULL, "neither read nor write the cache"},
    {CLI_BUILD, OPT_NO_COMPILE, "no-compile", NULL, "fail where the cache has no entry"},
    {CLI_BUILD, OPT_NVRTC, "nvrtc", "FILE", "this libnvrtc instead of the one found"},
    {CLI_JOBS, OPT_JOBS, "jobs", "N", "worker processes; default: one for each CPU"},
    {CLI_JSON, OPT_JSON, "json", NULL, "JSON on stdout"},
    {0, OPT_HELP, "help", NULL, "this text"},
};
enum { NUM_SHARED = sizeof shared_options / sizeof *shared_options };

static bool takes(const struct cli_command *command, const struct shared_option *option) {
  return option->needs == 0 || (command->shared & option->needs) != 0;
}

/* ---- help ------------------------------------------------------------------------------------ */

static void print_option(int letter, const char *name, const char *argument, const char *help) {
  char left[64];
  (void)snprintf(left, sizeof left, "--%s%s%s", name, argument ? " " : "",
                 argument ? argument : "");
  if (letter) {
    printf("  -%c, %-18s  %s\n", letter, left, help);
  } else {
    printf("      %-18s  %s\n", left, help);
  }
}

void cli_print_help(const struct cli_command *command) {
  const struct cli_own_option *own;
  int i;

  printf("usage: kiln %s%s%s [options]\n\n%s.\n", command->name, command->usage[0] ? " " : "",
         command->usage, command->about);
  if (command->help) printf("\n%s", command->help);
  printf("\noptions:\n");
  for (own = command->own; own && own->name; own++) {
    print_option(0, own->name, own->argument, own->help);
  }
  for (i = 0; i < NUM_SHARED; i++) {
    const struct shared_option *option = &shared_options[i];
    if (!takes(command, option)) continue;
    print_option(option->value < OPT_ARCH ? option->value : 0, option->name, option->argument,
                 option->help);
  }
}

/* ---- messages -------------------------------------------------------------------------------- */

int cli_usage(const struct cli_options *options, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "kiln %s: ", options->command->name);
  vfprintf(stderr, format, args);
  fprintf(stderr, "\nTry 'kiln %s --help'.\n", options->command->name);
  va_end(args);
  return CLI_USAGE;
}

int cli_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "kiln: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
  return CLI_FAILED;
}

void cli_print_fault(const struct cli_fault *fault) {
  fprintf(stderr, "%s:", fault->file && fault->file[0] ? fault->file : "kiln");
  if (fault->line > 0) fprintf(stderr, "%d:", fault->line);
  if (fault->line > 0 && fault->column > 0) fprintf(stderr, "%d:", fault->column);
  fprintf(stderr, " %s", fault->message);
  if (fault->request) fprintf(stderr, " (%s, %s)", fault->request, fault->target);
  fprintf(stderr, "\n");
  if (fault->log && fault->log[0]) fprintf(stderr, "%s\n", fault->log);
}

int cli_fail_last(void) {
  const kiln_error *error = kiln_last_error();
  cli_print_fault(&(struct cli_fault){.file = error->file,
                                      .line = error->line,
                                      .column = error->column,
                                      .message = error->message,
                                      .log = error->log});
  return CLI_FAILED;
}

/* True if at most `budget` letters changed, added or left out turn a into b. */
static bool is_near(const char *a, const char *b, int budget) {
  while (*a && *a == *b) {
    a++;
    b++;
  }
  if (!*a && !*b) return true;
  if (budget == 0) return false;
  return (*a && is_near(a + 1, b, budget - 1)) || (*b && is_near(a, b + 1, budget - 1)) ||
         (*a && *b && is_near(a + 1, b + 1, budget - 1));
}

const char *cli_nearest(const char *word, const char *const *names, size_t count) {
  const size_t length = strlen(word);
  size_t i;
  int budget;

  for (budget = 0; budget <= 2 && length > (size_t)budget + 1; budget++) {
    for (i = 0; i < count; i++) {
      if (is_near(word, names[i], budget)) return names[i];
    }
  }
  for (i = 0; i < count && length > 1; i++) {
    if (strncmp(word, names[i], length) == 0) return names[i];
  }
  return NULL;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* Splits --arch in place. */
static int parse_archs(struct cli_options *out, char *list) {
  size_t count = 0;
  size_t i;
  char *name;

  while (cli_targets[count]) count++;
  out->num_archs = 0;
  if (strcmp(list, "all") == 0) {
    for (i = 0; i < count; i++) out->archs[out->num_archs++] = cli_targets[i];
    return CLI_DONE;
  }
  while ((name = strsep(&list, ",")) != NULL) {
    for (i = 0; i < count && strcmp(name, cli_targets[i]) != 0; i++) continue;
    if (i == count) {
      return cli_usage(out, "--arch: '%s' is no target; known are %s, %s, %s and %s", name,
                       cli_targets[0], cli_targets[1], cli_targets[2], cli_targets[3]);
    }
    if (out->num_archs == CLI_MAX_ARCHS) return cli_usage(out, "--arch: too many targets");
    out->archs[out->num_archs++] = cli_targets[i];
  }
  return CLI_DONE;
}

static bool parse_int(const char *text, int64_t min, int64_t max, int64_t *out) {
  char *end;
  long long value;
  if (!isdigit((unsigned char)text[text[0] == '-'])) return false;
  errno = 0;
  value = strtoll(text, &end, 10);
  if (errno != 0 || *end != '\0' || value < min || value > max) return false;
  *out = value;
  return true;
}

static int take_option(struct cli_options *out, int value, char *argument, bool *out_help) {
  int64_t jobs = 0;
  switch (value) {
    case OPT_HELP:
      *out_help = true;
      return CLI_DONE;
    case OPT_JOBS:
      if (!parse_int(argument, 1, 1024, &jobs)) {
        return cli_usage(out, "-j: '%s' is no number from 1 to 1024", argument);
      }
      out->jobs = (int)jobs;
      return CLI_DONE;
    case OPT_ARCH:
      return parse_archs(out, argument);
    case OPT_JSON:
      out->json = true;
      return CLI_DONE;
    case OPT_SPECS:
      out->spec_dirs = argument;
      return CLI_DONE;
    case OPT_CACHE:
      out->cache_dirs = argument;
      return CLI_DONE;
    case OPT_NO_CACHE:
      out->no_cache = true;
      return CLI_DONE;
    case OPT_NO_COMPILE:
      out->no_compile = true;
      return CLI_DONE;
    case OPT_NVRTC:
      out->nvrtc = argument;
      return CLI_DONE;
    default:
      out->own[value - OPT_OWN] = argument ? argument : "";
      return CLI_DONE;
  }
}

/* Sorts operands into params (name=value) and the rest. */
static int take_operands(struct cli_options *out, int argc, char **argv) {
  const struct cli_command *command = out->command;
  int i;

  out->operands = calloc((size_t)argc + 1, sizeof *out->operands);
  out->params = calloc((size_t)argc + 1, sizeof *out->params);
  if (!out->operands || !out->params) return cli_fail("out of memory");
  for (i = 0; i < argc; i++) {
    char *equals = strchr(argv[i], '=');
    if ((command->shared & CLI_PARAMS) == 0 || !equals) {
      out->operands[out->num_operands++] = argv[i];
      continue;
    }
    if (equals == argv[i]) return cli_usage(out, "'%s' has no name before '='", argv[i]);
    *equals = '\0';
    out->params[out->num_params].name = argv[i];
    out->params[out->num_params++].value = equals + 1;
  }
  if ((int)out->num_operands < command->min_operands) {
    return cli_usage(out, "something is missing; usage: kiln %s %s", command->name, command->usage);
  }
  if (command->max_operands >= 0 && (int)out->num_operands > command->max_operands) {
    return cli_usage(out, "'%s' is one operand too many", out->operands[command->max_operands]);
  }
  return CLI_DONE;
}

/* `optopt` is the letter of an unknown short option, 0 for an unknown long one. */
static int unknown_option(const struct cli_options *out, const struct option *longs, int num_longs,
                          const char *given) {
  const char *names[NUM_SHARED + CLI_MAX_OWN];
  const char *near;
  int i;

  if (optopt > 0 && optopt < OPT_ARCH) return cli_usage(out, "unknown option '-%c'", optopt);
  for (i = 0; i < num_longs; i++) names[i] = longs[i].name;
  near = cli_nearest(given + 2, names, (size_t)num_longs);
  return cli_usage(out, "unknown or ambiguous option '%s'%s%s%s", given,
                   near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_options *out,
              bool *out_help) {
  struct option longs[NUM_SHARED + CLI_MAX_OWN + 1] = {0};
  int num_longs = 0, status = CLI_DONE, value, i;

  *out = (struct cli_options){.command = command};
  for (i = 0; i < NUM_SHARED; i++) {
    const struct shared_option *option = &shared_options[i];
    if (!takes(command, option)) continue;
    longs[num_longs++] = (struct option){
        option->name, option->argument ? required_argument : no_argument, NULL, option->value};
  }
  for (i = 0; command->own && i < CLI_MAX_OWN && command->own[i].name; i++) {
    longs[num_longs++] = (struct option){command->own[i].name,
                                         command->own[i].argument ? required_argument : no_argument,
                                         NULL, OPT_OWN + i};
  }

  optind = 1;
  opterr = 0;
  while (status == CLI_DONE && !*out_help) {
    const int at = optind;
    value = getopt_long(argc, argv, command->shared & CLI_JOBS ? ":hj:" : ":h", longs, NULL);
    if (value == -1) break;
    if (value == ':') {
      status = cli_usage(out, "option '%s' needs a value", argv[optind - 1]);
    } else if (value == '?') {
      status = unknown_option(out, longs, num_longs, argv[optind > at ? optind - 1 : at]);
    } else {
      status = take_option(out, value, optarg, out_help);
    }
  }
  if (status == CLI_DONE && !*out_help) {
    status = take_operands(out, argc - optind, argv + optind);
  }
  return status;
}

void cli_options_release(struct cli_options *options) {
  free(options->operands);
  free(options->params);
  options->operands = NULL;
  options->params = NULL;
}

const char *cli_own(const struct cli_options *options, const char *name) {
  const struct cli_own_option *own = options->command->own;
  int i;
  for (i = 0; own && own[i].name; i++) {
    if (strcmp(own[i].name, name) == 0) return options->own[i];
  }
  return NULL;
}

bool cli_own_int(const struct cli_options *options, const char *name, int64_t min, int64_t max,
                 int64_t *out) {
  const char *text = cli_own(options, name);
  if (!text || parse_int(text, min, max, out)) return true;
  (void)cli_usage(options, "--%s: '%s' is no number from %lld to %lld", name, text, (long long)min,
                  (long long)max);
  return false;
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* The library's log: cache faults, waits. What was compiled is in the output of each command. */
static void log_line(void *user, const char *message) {
  (void)user;
  if (strncmp(message, "compiled ", strlen("compiled ")) == 0) return;
  fprintf(stderr, "kiln: %s\n", message);
}

static kiln_status open_context(const struct cli_options *options, const char *arch, uint32_t flags,
                                kiln **out) {
  kiln_options o;
  kiln_options_init(&o);
  o.flags = flags;
  if (options->no_cache) o.flags |= KILN_NO_CACHE;
  if (options->no_compile) o.flags |= KILN_NO_COMPILE;
  if (arch) o.flags |= KILN_NO_DEVICE;
  o.arch = arch;
  o.spec_dirs = options->spec_dirs;
  o.cache_dirs = options->cache_dirs;
  o.nvrtc = options->nvrtc;
  o.log = log_line;
  return kiln_open(&o, out);
}

kiln *cli_open(const struct cli_options *options, const char *arch, uint32_t flags) {
  kiln *k = NULL;
  if (open_context(options, arch, flags, &k) != KILN_OK) (void)cli_fail_last();
  return k;
}

kiln *cli_open_to_look(const struct cli_options *options) {
  kiln *k = NULL;
  if (options->num_archs > 0) return cli_open(options, options->archs[0], 0);
  if (open_context(options, NULL, 0, &k) == KILN_OK) return k;
  if (kiln_last_error()->status == KILN_E_CUDA || kiln_last_error()->status == KILN_E_UNSUPPORTED) {
    return cli_open(options, cli_targets[0], 0);
  }
  (void)cli_fail_last();
  return NULL;
}

bool cli_default_archs(struct cli_options *options) {
  kiln *k;
  size_t i;
  if (options->num_archs > 0) return true;
  k = cli_open(options, NULL, KILN_NO_CACHE);
  if (!k) {
    (void)cli_fail("give the targets with --arch where there is no GPU");
    return false;
  }
  for (i = 0; cli_targets[i]; i++) {
    if (strcmp(cli_targets[i], kiln_arch(k)) == 0)
      options->archs[options->num_archs++] = cli_targets[i];
  }
  kiln_close(k);
  return options->num_archs > 0;
}

kiln_request cli_request(const struct cli_options *options) {
  kiln_request request;
  kiln_request_init(&request);
  request.op = options->operands[0];
  request.params = options->params;
  request.num_params = options->num_params;
  return request;
}
