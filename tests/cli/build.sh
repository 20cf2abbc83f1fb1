# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Needs NVRTC but no GPU.
kiln doctor 2>&1 | grep -q '^problem  NVRTC' && exit 77
fields='
import json, sys
for k in json.load(sys.stdin)["kernels"]:
    print(k["target"], k["origin"], k["params"], [f["name"] for f in k["functions"]])'
kiln build transpose dtype=bf16 --arch sm_90a,sm_100a --json | python3 -c "$fields"
kiln build transpose dtype=bf16 --arch sm_90a,sm_100a --json | python3 -c "$fields"
kiln build transpose dtype=bf16 --arch sm_90a --no-cache --json | python3 -c "$fields"
kiln build transpose dtype=bf16 --arch sm_90a | sed -n '4,$s/  .*//p'
kiln show transpose dtype=bf16 | tail -n 2 | sed 's/ .*//'
fails 1 bf8 kiln build transpose dtype=bf8 --arch sm_90a
fails 1 transpose kiln build transpose dtype=f32 --arch sm_90a --no-compile
fails 1 /nowhere/libnvrtc.so \
  kiln build transpose dtype=bf16 --arch sm_90a --nvrtc /nowhere/libnvrtc.so --no-cache
