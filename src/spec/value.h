/* SPDX-License-Identifier: MIT */
/* Values of params as text: defaults, examples, requests. */
#ifndef KILN_SPEC_VALUE_H
#define KILN_SPEC_VALUE_H

#include "spec/spec.h"

/* Parses `text` as a value of `param` and checks type, range, multiple_of and words. */
bool kn_param_parse(const struct kn_param_spec *param, const char *text, struct kn_value *out);
/* Whether one_of allows a value: true where a name in it leaves that open. */
bool kn_param_lists(const struct kn_param_spec *param, const struct kn_value *value);
/* "allowed is an integer of at least 1"; "?" when out of memory. */
const char *kn_param_allowed(struct kn_arena *arena, const struct kn_param_spec *param);

#endif
