# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Wrong usage is told on stderr with exit code 2; help goes to stdout with 0.
fails 2 '^usage: kiln COMMAND' kiln
t kiln lst
t kiln frobnicate
kiln --help | head -n 5
t kiln --version
t kiln help emit
t kiln help nothing
t kiln emit
t kiln emit one two
t kiln emit copy --bogus
t kiln emit copy --spec-dri x
t kiln emit copy --json
t kiln emit copy =5
t kiln emit copy --arch
t kiln emit copy --arch sm_90
t kiln emit copy --arch sm_90a,
t kiln emit copy --arch sm_90a,sm_100a
t kiln list --arch sm_90a
t kiln list extra
t kiln prewarm -j 0
t kiln prewarm -j many
t kiln prewarm -x
t kiln cache
t kiln cache trim
t kiln check
t kiln run
t kiln run --all copy
t kiln run copy --seed x
t kiln run --golden
