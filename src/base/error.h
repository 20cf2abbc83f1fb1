/* SPDX-License-Identifier: MIT */
/* The thread's last error. The place that detects a fault builds the sentence; callers pass the
   status up unchanged. */
#ifndef KILN_BASE_ERROR_H
#define KILN_BASE_ERROR_H

#include <kiln/kiln.h>

#include "base/attributes.h"

/* Records `status` with a message, and returns it. */
kiln_status kn_fail(kiln_status status, const char *format, ...) KN_PRINTF(2, 3);

/* The same with the place in a spec or template that is at fault; 0 where line or column is
   unknown. */
kiln_status kn_fail_at(kiln_status status, const char *file, int line, int column,
                       const char *format, ...) KN_PRINTF(5, 6);

/* Adds a compiler log (copied) or a driver code to the error just recorded. */
void kn_error_set_log(const char *log);
void kn_error_set_driver_code(int code);

/* Puts "<context>: " before the message just recorded. */
void kn_error_prefix(const char *format, ...) KN_PRINTF(1, 2);

/* On entry to every public function that returns a status. */
void kn_error_clear(void);

/* What kiln_last_error returns. */
const kiln_error *kn_error_last(void);

#endif
