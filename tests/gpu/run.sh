#!/bin/sh
# SPDX-License-Identifier: MIT
# Everything that needs a GPU, in one go: checks every operator, runs the recorded cases and the sanitizers,
# and measures. Writes JSON and logs into DIR. Takes the build folder from BUILD (build/release).
#
#   tests/gpu/run.sh DIR          PARTS="api check golden sanitize bench profile" picks parts
set -u
out=${1:?usage: tests/gpu/run.sh DIR}
build=${BUILD:-build/release}
parts=${PARTS:-"api check golden sanitize bench profile"}
kiln=$build/kiln
mkdir -p "$out"
nvidia-smi --query-gpu=driver_version --format=csv,noheader >"$out/driver" 2>/dev/null
KILN_CACHE_DIR=${KILN_CACHE_DIR:-$(mktemp -d)}
export KILN_CACHE_DIR
failed=0

# Runs a part of the work under a time limit and tells how it went.
part() {
  name=$1 limit=$2
  shift 2
  if timeout "$limit" "$@"; then echo "ok      $name"; else echo "FAILED  $name ($?)"; failed=1; fi
}
wants() { case " $parts " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# Built with the tests; they need libcmocka.so.0 beside them or installed.
for name in gpu routing gates; do
  if wants api && [ -x "$build/tests/gpu/test_$name" ]; then
    part "api $name" 120 sh -c "'$build/tests/gpu/test_$name' >'$out/api-$name.log' 2>&1"
  fi
done
if wants check; then
  part check 240 sh -c "'$kiln' run --all --check --json >'$out/check.json' 2>'$out/check.log'"
fi
if wants golden; then
  part golden 60 sh -c "'$kiln' run --golden tests/data/golden/* --json >'$out/golden.json' 2>'$out/golden.log'"
fi
if wants sanitize; then
  for tool in memcheck racecheck initcheck synccheck; do
    part "sanitize $tool" 120 sh -c "compute-sanitizer --tool $tool --error-exitcode 9 '$kiln' run --all \
      --check --quick --max-cases ${SANITIZE_CASES:-400} -j 1 >'$out/$tool.log' 2>&1"
  done
fi
if wants bench; then
  part bench 120 sh -c "'$kiln' bench --suite core --json >'$out/bench.json' 2>'$out/bench.log'"
  part "bench quant" 240 sh -c "'$kiln' bench --suite quant --json >'$out/bench-quant.json' 2>'$out/bench-quant.log'"
  part "bench moe" 120 sh -c "'$kiln' bench --suite moe --json >'$out/bench-moe.json' 2>'$out/bench-moe.log'"
  part "bench pdl" 120 sh -c "'$kiln' bench --suite core --pdl --json >'$out/bench-pdl.json' 2>'$out/bench-pdl.log'"
  part "bench host" 60 sh -c "'$kiln' bench --host --json >'$out/host.json' 2>'$out/host.log'"
fi
# What saturates in the kernels that stay below their bar.
if wants profile; then
  metrics=sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active,sm__inst_issued.avg.pct_of_peak_sustained_active
  metrics=$metrics,dram__throughput.avg.pct_of_peak_sustained_elapsed,lts__t_sectors.avg.pct_of_peak_sustained_elapsed
  metrics=$metrics,sm__warps_active.avg.pct_of_peak_sustained_active
  packed="round_sf=true use_tma_aligned_col_major_sf=true use_packed_ue8m0=true"
  for flags in "" "$packed"; do
    # shellcheck disable=SC2086
    part "profile e2m1 $flags" 90 sh -c "ncu --clock-control none --csv --metrics $metrics -k regex:group \
      --launch-skip 20 --launch-count 1 '$kiln' bench per_token_cast hidden=7168 in_dtype=bf16 fmt=e2m1 \
      num_per_channels=32 $flags >>'$out/profile.csv' 2>>'$out/profile.log'"
  done
fi
exit $failed
