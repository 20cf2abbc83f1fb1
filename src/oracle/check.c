/* SPDX-License-Identifier: MIT */
/* Which operator a case is, and the comparison of what a kernel wrote. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "oracle/elements.h"

static const struct {
  const char *op;
  kiln_status (*run)(const struct kn_oracle_job *job);
} operators[] = {
    {"transpose", kn_oracle_run_transpose},
    {"batched_transpose", kn_oracle_run_transpose},
    {"copy", kn_oracle_run_copy},
    {"swiglu_backward_and_per_token_cast", kn_oracle_run_swiglu_backward},
    {"normalize_weight", kn_oracle_run_normalize_weight},
    {"mask_indices_by_tp", kn_oracle_run_mask_indices_by_tp},
    {"group_count", kn_oracle_run_group_count},
    {"aux_fi", kn_oracle_run_aux_fi},
    {"inplace_unique_group_indices", kn_oracle_run_unique},
    {"topk_gate", kn_oracle_run_topk_gate},
    {"top2_sum_gate", kn_oracle_run_gate},
    {"get_fused_mapping", kn_oracle_run_mapping},
    {"expand_to_fused", kn_oracle_run_expand},
    {"expand_to_fused_with_sf", kn_oracle_run_expand},
    {"reduce_fused", kn_oracle_run_reduce},
    {"reduce_fused_and_residual_add", kn_oracle_run_reduce},
    {"topk_gate_and_get_fused_mapping", kn_oracle_run_gate_and_mapping},
    {"topk_sum_and_topk_group_idx", kn_oracle_run_topk_groups},
};
enum { NUM_OPERATORS = sizeof operators / sizeof *operators };

kiln_status kn_oracle_run_job(const struct kn_oracle_job *job) {
  if (job->c->chain[0]) return kn_oracle_run_chain(job);
  for (int i = 0; i < NUM_OPERATORS; ++i) {
    if (strcmp(operators[i].op, job->c->op) == 0) return operators[i].run(job);
  }
  return KILN_E_UNSUPPORTED;
}

kiln_status kn_oracle_run(const struct kn_oracle_case *c) {
  const struct kn_oracle_job job = {c, NULL};
  return kn_oracle_run_job(&job);
}

/* ---- comparing ---- */

static bool is_output(const struct kn_oracle_tensor *t) {
  return t->present && t->role != KILN_IN;
}

/* The first fault is told in full, the others are counted. */
static void tell(struct kn_oracle_report *report, const struct kn_oracle_tensor *t,
                 const int64_t *place, uint64_t is, uint64_t want) {
  char *out = report->first;
  size_t used = 0;
  const size_t size = sizeof report->first;
  if (report->failed++ > 0) return;
  used += (size_t)snprintf(out, size, "%.64s[", t->name);
  for (int axis = 0; axis < t->tensor.rank; ++axis) {
    used +=
        (size_t)snprintf(out + used, size - used, "%s%" PRId64, axis > 0 ? ", " : "", place[axis]);
  }
  (void)snprintf(out + used, size - used, "]: 0x%" PRIx64 ", want 0x%" PRIx64, is, want);
}

static bool advance(const kiln_tensor *t, int64_t *place) {
  for (int axis = t->rank - 1; axis >= 0; --axis) {
    if (++place[axis] < t->shape[axis]) return true;
    place[axis] = 0;
  }
  return false;
}

/* Looks at each element, and puts the wanted one over each that differs. */
static void compare_elements(const struct kn_oracle_tensor *is, const struct kn_oracle_tensor *want,
                             struct kn_oracle_report *report) {
  int64_t place[KILN_MAX_RANK] = {0};
  for (int axis = 0; axis < is->tensor.rank; ++axis) {
    if (is->tensor.shape[axis] == 0) return;
  }
  do {
    int64_t offset = 0;
    uint64_t a, b;
    for (int axis = 0; axis < is->tensor.rank; ++axis) {
      offset += place[axis] * is->tensor.strides[axis];
    }
    a = kn_oracle_get_wide(&is->tensor, offset);
    b = kn_oracle_get_wide(&want->tensor, offset);
    if (a == b) continue;
    tell(report, is, place, a, b);
    kn_oracle_put_wide(&want->tensor, offset, a);
  } while (advance(&is->tensor, place));
}

/* What is left differs outside of the elements: padding, gaps, what lies behind. */
static void compare_gaps(const struct kn_oracle_tensor *is, const struct kn_oracle_tensor *want,
                         struct kn_oracle_report *report) {
  const uint8_t *a = is->tensor.data, *b = want->tensor.data;
  for (uint64_t i = 0; i < is->tensor.size_bytes; ++i) {
    if (a[i] == b[i]) continue;
    if (report->failed++ > 0) continue;
    (void)snprintf(report->first, sizeof report->first,
                   "%.64s, byte %" PRIu64 " outside of the matrix: 0x%x, want 0x%x", is->name, i,
                   a[i], b[i]);
  }
}

static void compare(const struct kn_oracle_tensor *is, const struct kn_oracle_tensor *want,
                    struct kn_oracle_report *report) {
  const uint64_t bytes = is->tensor.size_bytes;
  report->compared += bytes * 8 / (uint64_t)kiln_dtype_bits(is->tensor.dtype);
  if (bytes == 0 || memcmp(is->tensor.data, want->tensor.data, bytes) == 0) return;
  compare_elements(is, want, report);
  compare_gaps(is, want, report);
}

static void release(struct kn_oracle_tensor *tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; ++i) {
    if (is_output(&tensors[i])) free(tensors[i].tensor.data);
  }
  free(tensors);
}

/* The case's tensors with fresh outputs: poisoned, or where a kernel reads them too, as they are.
 */
static struct kn_oracle_tensor *with_own_outputs(const struct kn_oracle_case *c, uint8_t poison) {
  struct kn_oracle_tensor *tensors = calloc(c->num_tensors + 1, sizeof *tensors);
  bool failed = false;
  if (!tensors) return NULL;
  for (size_t i = 0; i < c->num_tensors; ++i) {
    kiln_tensor *t = &tensors[i].tensor;
    tensors[i] = c->tensors[i];
    if (!is_output(&tensors[i])) continue;
    t->data = malloc(t->size_bytes + 1);
    if (t->data) memset(t->data, poison, t->size_bytes + 1);
    if (t->data && tensors[i].role == KILN_INOUT) memcpy(t->data, tensors[i].before, t->size_bytes);
    failed = failed || !t->data;
  }
  if (failed) {
    release(tensors, c->num_tensors);
    return NULL;
  }
  return tensors;
}

kiln_status kn_oracle_check(const struct kn_oracle_case *c, uint8_t poison,
                            struct kn_oracle_report *report) {
  struct kn_oracle_case own = *c;
  const struct kn_oracle_job job = {&own, c->tensors};
  kiln_status status;
  *report = (struct kn_oracle_report){.compared = 0};
  own.tensors = with_own_outputs(c, poison);
  if (!own.tensors) return KILN_E_MEMORY;
  status = kn_oracle_run_job(&job);
  for (size_t i = 0; i < c->num_tensors && status == KILN_OK; ++i) {
    if (is_output(&c->tensors[i])) compare(&c->tensors[i], &own.tensors[i], report);
  }
  release(own.tensors, c->num_tensors);
  return status;
}
