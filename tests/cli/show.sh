# SPDX-License-Identifier: MIT
# shellcheck shell=sh
t kiln show per_token_cast
fails 1 per_token_casts kiln show per_token_casts
kiln show per_token_cast --json | python3 -c '
import json, sys
spec = json.load(sys.stdin)["spec"]
print(spec["operator"], [p["name"] for p in spec["params"]])'
