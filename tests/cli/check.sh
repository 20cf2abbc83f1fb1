# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What is wrong is told as file:line:column: message, with exit code 1.
for spec in "$SOURCE"/specs/*/*.yaml; do
  kiln check "$spec" >/dev/null || echo "$spec failed"
done
cp "$SOURCE/specs/quant/per_token_cast.yaml" good.yaml
t kiln check good.yaml

sed 's/num_per_channels: {type: int/num_per_channels: {typo: int/' good.yaml >key.yaml
t kiln check key.yaml
sed 's/^params:/parms:/' good.yaml >top.yaml
t kiln check top.yaml
printf 'operator: x\nparams: [\n' >syntax.yaml
fails 1 '^syntax.yaml:[0-9]*:[0-9]*: ' kiln check syntax.yaml
sed 's/hidden: 7168, in_dtype: bf16, fmt: e2m1/hidden: 7167, in_dtype: bf16, fmt: e2m1/' good.yaml >odd.yaml
fails 1 'odd.yaml:.*hidden' kiln check odd.yaml --arch sm_90a
fails 1 missing.yaml kiln check missing.yaml
t kiln check good.yaml key.yaml
kiln check key.yaml --json 2>/dev/null | python3 -c '
import json, sys
report = json.load(sys.stdin)
fault = report["files"][0]["faults"][0]
print(report["failed"], fault["file"], fault["line"], fault["column"])'
