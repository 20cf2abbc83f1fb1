# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# The built-in operators, and those of a folder given.
kiln list | tr -s ' ' | grep -E '^(copy|per_token_cast|transpose) '
kiln list --json | python3 -c '
import json, sys
for row in json.load(sys.stdin)["operators"]:
    if row["operator"] in ("copy", "transpose", "residual_rmsnorm_and_per_token_cast"):
        print(row)'
# One engine: few templates serve every quantising and transposing operator, and each has one.
kiln list --json | python3 -c '
import json, sys
rows = [row for row in json.load(sys.stdin)["operators"] if row["file"].split("/")[1] in ("quant", "transpose")]
names = sorted({name for row in rows for name in row["templates"]})
print(len(rows) >= 20, all(row["templates"] for row in rows), len(names) <= 6, *names)'
mkdir mine
cat >mine/double.yaml <<'YAML'
operator: double
about: Copies a matrix, for this test
params: {hidden: {type: int, min: 1}}
tensors:
  x:   {role: in,  dtype: bf16, shape: [num_tokens, hidden], strides: [any, 1]}
  out: {role: out, dtype: e4m3, shape: [num_tokens, hidden]}
  out_sf: {role: out, sf_of: out, block: [1, hidden]}
chain: [{load: x}, {quantize: {to: e4m3, sf_block: [1, hidden]}}, {store: {data: out, sf: out_sf}}]
examples: [{hidden: 512}]
YAML
t kiln list --spec-dir mine
export KILN_SPEC_PATH=mine
t kiln list
fails 1 nowhere kiln list --spec-dir nowhere
