/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_BYTES = 512 };

/* Texts live on the heap; `fixed` takes a message, cut short, when memory has run out. */
struct error_state {
  kiln_error error;
  char *message, *file, *log;
  char fixed[FIXED_BYTES];
  bool registered;
};

static _Thread_local struct error_state state = {.error = {.message = ""}};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

static void release_texts(struct error_state *s) {
  free(s->message);
  free(s->file);
  free(s->log);
  s->message = s->file = s->log = NULL;
}

static void at_thread_exit(void *user) {
  struct error_state *s = user;
  release_texts(s);
  s->error = (kiln_error){.message = ""};
  s->registered = false;
}

static void make_key(void) {
  have_key = pthread_key_create(&key, at_thread_exit) == 0;
}

/* Has the texts of this thread freed when it ends. */
static void register_thread(void) {
  if (state.registered) return;
  (void)pthread_once(&once, make_key);
  if (have_key) state.registered = pthread_setspecific(key, &state) == 0;
}

/* Replaces the message by the formatted text and ": <tail>"; the old message may be an argument. */
static void set_message(const char *tail, const char *format, va_list args) KN_PRINTF(2, 0);
static void set_message(const char *tail, const char *format, va_list args) {
  char fixed[FIXED_BYTES];
  char *message = NULL;
  va_list again;
  size_t total;
  int length;

  va_copy(again, args);
  length = vsnprintf(fixed, sizeof fixed, format, args);
  if (length < 0) {
    fixed[0] = '\0';
    length = 0;
  }
  total = (size_t)length + (tail ? strlen(tail) + 2 : 0) + 1;
  message = malloc(total);
  if (message) {
    (void)vsnprintf(message, (size_t)length + 1, format, again);
    if (tail) (void)snprintf(message + length, total - (size_t)length, ": %s", tail);
  }
  va_end(again);

  free(state.message);
  state.message = message;
  if (!message) (void)snprintf(state.fixed, sizeof state.fixed, "%s", fixed);
  state.error.message = message ? message : state.fixed;
}

static void fail(kiln_status status, const char *file, int line, int column, const char *format,
                 va_list args) KN_PRINTF(5, 0);
static void fail(kiln_status status, const char *file, int line, int column, const char *format,
                 va_list args) {
  char *file_copy = file ? strdup(file) : NULL;

  register_thread();
  set_message(NULL, format, args);
  free(state.file);
  free(state.log);
  state.file = file_copy;
  state.log = NULL;
  state.error = (kiln_error){.status = status,
                             .message = state.error.message,
                             .file = file_copy,
                             .line = line,
                             .column = column};
}

kiln_status kn_fail(kiln_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail(status, NULL, 0, 0, format, args);
  va_end(args);
  return status;
}

kiln_status kn_fail_at(kiln_status status, const char *file, int line, int column,
                       const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail(status, file, line, column, format, args);
  va_end(args);
  return status;
}

void kn_error_set_log(const char *log) {
  char *copy = log ? strdup(log) : NULL;
  register_thread();
  free(state.log);
  state.log = copy;
  state.error.log = copy;
}

void kn_error_set_driver_code(int code) {
  state.error.driver_code = code;
}

void kn_error_prefix(const char *format, ...) {
  va_list args;
  register_thread();
  va_start(args, format);
  set_message(state.error.message, format, args);
  va_end(args);
}

void kn_error_clear(void) {
  release_texts(&state);
  state.error = (kiln_error){.message = ""};
}

const kiln_error *kn_error_last(void) {
  return &state.error;
}
