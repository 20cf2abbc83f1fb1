/* SPDX-License-Identifier: MIT */
/*
 * plan -> self-contained CUDA source.
 *
 *   1. `// kiln ...` one comment line: canonical request and target, no path, no time
 *   2. the closure of device headers, each once, dependencies first, each after
 *      `#line 1 "kiln/types.cuh"`; their `#pragma once` and `#include "kiln/..."` lines are blanked
 *   3. `#line 1 "kiln/generated"`: constants, aliases, struct kiln_args, chain phases
 *   4. `#line 1 "channel.cu"` and the template byte for byte
 *
 * A template names the headers it needs in comment lines: `// needs: kiln/tile.cuh kiln/ptx.cuh`.
 */
#ifndef KILN_EMIT_EMIT_H
#define KILN_EMIT_EMIT_H

#include <kiln/kiln.h>

#include "base/text.h"
#include "plan/plan.h"

/* Finds the text of a template or device header by its path relative to the source tree
   ("templates/kiln/types.cuh"); NULL if there is none. The text lives at least as long as the
   call. */
typedef const char *(*kn_source_fn)(void *user, const char *path);

/* Appends the whole source. KILN_E_SPEC if a template or header is missing. */
kiln_status kn_emit(const struct kn_plan *plan, kn_source_fn find, void *user,
                    struct kn_text *out_source);

/* Only part 3, for golden files. */
kiln_status kn_emit_generated(const struct kn_plan *plan, struct kn_text *out_source);

#endif
