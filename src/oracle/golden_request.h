/* SPDX-License-Identifier: MIT */
/* What the files share that turn golden cases into requests. */
#ifndef KILN_ORACLE_GOLDEN_REQUEST_H
#define KILN_ORACLE_GOLDEN_REQUEST_H

#include "oracle/golden.h"

void kn_golden_add(struct kn_golden_request *out, const char *name, const char *value);
void kn_golden_add_int(struct kn_golden_request *out, const char *name, int64_t value);

/* Cases of the quant family; false for others. */
bool kn_golden_quant_request(const struct kn_golden *golden, struct kn_golden_request *out);
/* Cases of mixture-of-experts routing; false for others. */
bool kn_golden_routing_request(const struct kn_golden *golden, struct kn_golden_request *out);

#endif
