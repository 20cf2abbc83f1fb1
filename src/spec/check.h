/* SPDX-License-Identifier: MIT */
/* What a spec as a whole must satisfy, once all of it is read. */
#ifndef KILN_SPEC_CHECK_H
#define KILN_SPEC_CHECK_H

#include "spec/spec.h"

/* Structure, names and types of expressions. Words of word params in expressions, which the parser
   takes for names, become constants. KILN_E_SPEC. */
kiln_status kn_spec_check(struct kn_spec *spec);

#endif
