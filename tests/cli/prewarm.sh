# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Built once for two targets, found the second time; needs NVRTC but no GPU.
kiln doctor 2>&1 | grep -q '^problem  NVRTC' && exit 77
counts() {
  python3 -c '
import json, sys
summary = json.load(sys.stdin)
total = len(summary["kernels"])
print({k: "all" if summary[k] == total else summary[k] for k in ("compiled", "hit", "failed")})
print(sorted(set(k["target"] for k in summary["kernels"])))
print("registers", all(k["registers"] > 0 for k in summary["kernels"]))
print("spills", sum(k["spill_bytes"] for k in summary["kernels"]))'
}
specs="$SOURCE/specs/bench $SOURCE/specs/transpose"
# shellcheck disable=SC2086
kiln prewarm $specs --arch sm_90a,sm_100a --cache-dir cache --no-compile >/dev/null 2>&1
echo "not built yet: exit $?"
[ ! -e cache ] && echo "and nothing was written"
# shellcheck disable=SC2086
kiln prewarm $specs --arch sm_90a,sm_100a --cache-dir cache --json | counts
# shellcheck disable=SC2086
kiln prewarm $specs --arch sm_90a,sm_100a --cache-dir cache --json | counts
# shellcheck disable=SC2086
kiln prewarm $specs --arch sm_90a,sm_100a --cache-dir cache --no-compile | sed -n '$s/ in .*//p'
find cache -type f ! -name '*.kiln'
find cache -type d ! -perm 0700
find cache -type f ! -perm 0600

# A damaged entry is compiled again, and then the cache is whole again.
entry=$(find cache -name '*.kiln' | sort | head -n 1)
truncate -s 100 "$entry"
kiln cache stats --cache-dir cache --json | python3 -c '
import json, sys
print("damaged", json.load(sys.stdin)["damaged"])'
# shellcheck disable=SC2086
kiln prewarm $specs --arch sm_90a,sm_100a --cache-dir cache 2>/dev/null | sed -n '$s/ in .*//p' |
  sed 's/, [0-9]* hit//'
kiln cache stats --cache-dir cache --json | python3 -c '
import json, sys
print("damaged", json.load(sys.stdin)["damaged"])'
kiln cache list --cache-dir cache --json | python3 -m json.tool >/dev/null && echo "list parses"
kiln cache list --cache-dir cache | grep -c 'transpose'

# A cache that cannot be written is a failure here, as nothing would be shipped.
kiln prewarm "$SOURCE/specs/bench" --arch sm_90a --cache-dir /proc/none >/dev/null 2>&1
echo "no cache: exit $?"
