# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# A cache is moved, shared, raced for and wiped; needs NVRTC but no GPU.
kiln doctor 2>&1 | grep -q '^problem  NVRTC' && exit 77
spec=$SOURCE/specs/transpose/transpose.yaml
summary() { sed -n '$s/ in .*//p'; }
warm() { kiln prewarm "$spec" --arch sm_90a,sm_100a "$@" 2>err | summary; }

echo "moved to another path:"
warm --cache-dir old
grep -rlF -e "$PWD" -e "$SOURCE" old
mkdir 'new place'
mv old 'new place/b c'
warm --cache-dir 'new place/b c'

echo "read only, behind an empty root:"
warm --cache-dir 'empty:new place/b c'
find empty 2>/dev/null

echo "without NVRTC, and in strict mode:"
warm --cache-dir 'new place/b c' --nvrtc /nowhere/libnvrtc.so
warm --cache-dir 'new place/b c' --no-compile

echo "whatever the environment says:"
NVCC_APPEND_FLAGS=-DX NVRTC_APPEND_FLAGS=-DX CPATH=/x C_INCLUDE_PATH=/x TZ=Asia/Tokyo \
  warm --cache-dir 'new place/b c'

spec=$SOURCE/specs/bench # quick to compile

echo "eight at once on a cold cache:"
for i in 1 2 3 4 5 6 7 8; do
  (warm --cache-dir raced -j 1 >"raced.$i") &
done
wait
grep -c ', 0 failed' raced.1 raced.2 raced.3 raced.4 raced.5 raced.6 raced.7 raced.8
find raced -type f | wc -l
kiln cache stats --cache-dir raced | sed -n '$p' | tr -s ' ' | cut -d ' ' -f 1,2,4

echo "wiped all the time:"
(while [ ! -e stop ]; do rm -rf wiped 2>/dev/null; done) &
wiper=$!
for i in 1 2 3; do
  kiln prewarm "$spec" --arch sm_90a --cache-dir wiped --json 2>err | python3 -c '
import json, sys
print(all(k["registers"] > 0 for k in json.load(sys.stdin)["kernels"]))'
done
touch stop
wait $wiper

echo "where there is no home:"
(unset HOME && kiln build transpose dtype=bf16 --arch sm_90a --json 2>err) | python3 -c '
import json, sys
print(json.load(sys.stdin)["kernels"][0]["origin"])'
cat err
HOME=/proc/nowhere kiln build transpose dtype=bf16 --arch sm_90a --json 2>err | python3 -c '
import json, sys
print(json.load(sys.stdin)["kernels"][0]["origin"])'
