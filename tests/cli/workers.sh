# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# A worker that dies costs its own kernel only, and each failure is told with its log.
kiln prewarm "$SOURCE/specs/bench" "$SOURCE/specs/transpose/transpose.yaml" -j 2 \
  --arch sm_90a --nvrtc "$DEADLY_NVRTC" --json >out.json 2>err
echo "exit $?"
python3 - <<'PYTHON'
import json
summary = json.load(open("out.json"))
for k in summary["kernels"]:
    print(k["kernel"], k["target"], k["result"], k.get("status"))
print(summary["compiled"], summary["hit"], summary["failed"])
PYTHON
grep -c 'killed by signal 9 (Killed) (transpose dtype=.*, sm_90a)' err
grep -c '^kiln/generated(1): error: refused by the test' err
