#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh KILN SOURCE SCRIPT [--accept]
#
# Runs SCRIPT in an empty folder with an empty cache and compares what it prints with
# SCRIPT.expected (--accept writes that file instead: read the difference before committing it).
# A script is a list of
#   t COMMAND ..      prints the command, what it wrote (stdout, then stderr after "! ") and its
#                     exit code if that is not 0
#   fails CODE WORD COMMAND ..
#                     says whether the command ended with CODE, wrote nothing to stdout and WORD to
#                     stderr: for messages of the library, which have tests of their own
# and may use any shell command whose output is stable. $SOURCE is the source tree.
set -u

KILN=$1 SOURCE=$2 script=$3
expected=${script%.sh}.expected
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

unset KILN_CACHE_DIR KILN_SPEC_PATH KILN_NVRTC XDG_CACHE_HOME NO_COLOR POSIXLY_CORRECT
export HOME="$work/home" LC_ALL=C KILN SOURCE
mkdir -p "$work/home" "$work/here"
cd "$work/here" || exit 1

# Paths of this machine are no part of what is compared.
hide() { sed -e "s|$SOURCE|SOURCE|g" -e "s|$work|WORK|g"; }

kiln() { "$KILN" "$@"; }

t() {
  echo "\$ $*"
  "$@" >"$work/out" 2>"$work/err" </dev/null
  code=$?
  hide <"$work/out"
  hide <"$work/err" | sed 's/^/! /'
  if [ "$code" -ne 0 ]; then echo "exit $code"; fi
}

fails() {
  code=$1 word=$2
  shift 2
  echo "\$ $*"
  "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  if [ "$got" -eq "$code" ] && [ ! -s "$work/out" ] && grep -q -e "$word" "$work/err"; then
    echo "fails with $code, naming $word"
  else
    echo "exit $got, wants $code and '$word' on stderr:"
    cat "$work/out" "$work/err"
  fi
}

# shellcheck disable=SC1090
(. "$script") >"$work/got" 2>&1
code=$?
if [ "$code" -eq 77 ]; then exit 77; fi
if [ "${4:-}" = --accept ]; then
  cp "$work/got" "$expected"
  exit 0
fi
diff -u "$expected" "$work/got" && [ "$code" -eq 0 ]
