# SPDX-License-Identifier: MIT
# shellcheck shell=sh
for command in list show check emit build prewarm cache doctor run; do
  t kiln "$command" --help
done
