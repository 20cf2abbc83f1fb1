/* SPDX-License-Identifier: MIT */
/* The one place for compiler extensions. */
#ifndef KILN_BASE_ATTRIBUTES_H
#define KILN_BASE_ATTRIBUTES_H

#if defined(__GNUC__)
#define KN_PRINTF(format_index, first_index) \
  __attribute__((format(printf, format_index, first_index)))
#else
#define KN_PRINTF(format_index, first_index)
#endif

#endif
