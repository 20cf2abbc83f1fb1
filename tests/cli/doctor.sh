# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Without NVRTC nothing compiles, and that is exit code 1; a GPU is not needed.
checks='
import json, sys
report = json.load(sys.stdin)
print("ok", report["ok"])
for check in report["checks"]:
    if check["what"] in ("version", "targets", "NVRTC", "cache", "compile"):
        print(check["what"], check["ok"])'
kiln doctor --nvrtc /nowhere/libnvrtc.so --json >out
echo "exit $?"
python3 -c "$checks" <out
kiln doctor --nvrtc /nowhere/libnvrtc.so | grep -c '^problem .*/nowhere/libnvrtc.so'
kiln doctor --nvrtc "$DEADLY_NVRTC" | grep -c 'refused by the test'

mkdir -m 0777 open
chmod 0777 open
kiln doctor --cache-dir open --nvrtc /nowhere/libnvrtc.so 2>/dev/null | grep '^problem  cache'
(unset HOME && kiln doctor --nvrtc /nowhere/libnvrtc.so 2>/dev/null | grep '^problem  cache')
