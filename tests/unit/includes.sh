#!/bin/sh
# SPDX-License-Identifier: MIT
# Who may include what, as the design has it. Folders of src on the left; on the right what their
# files may include beside system headers: other folders of src, and headers by name.
#   includes.sh SOURCE
set -eu
cd "$1"

rules='
base:   base  kiln/kiln.h blake2.h
spec:   base spec  kiln/kiln.h yaml.h
plan:   base spec plan  kiln/kiln.h
emit:   base spec plan emit  kiln/kiln.h
oracle: base oracle  kiln/kiln.h
cuda:   base cuda  kiln/kiln.h cuda.h nvrtc.h
cache:  base cache  kiln/kiln.h
cli:    cli oracle  kiln/kiln.h cJSON.h cuda.h
'
# No clock, environment, thread or file in what must be a pure function.
pure='spec plan emit oracle'
impure='(time|unistd|fcntl|pthread|dirent|dlfcn|locale)\.h|sys/.*'

list=$(mktemp)
trap 'rm -f "$list"' EXIT
faults=0
fault() {
  echo "$1: #include \"$2\" is not allowed here" >&2
  faults=$((faults + 1))
}

# "file header" for every #include of src.
grep -rEo '^ *# *include *[<"][^>"]*' src --include='*.[ch]' |
  sed -E 's/: *# *include *[<"]/ /' >"$list"

while read -r file header; do
  folder=${file#src/}
  case $folder in */*) folder=${folder%%/*} ;; *) continue ;; esac
  allowed=$(echo "$rules" | sed -n "s/^$folder: *//p")
  [ -n "$allowed" ] || { echo "$file: folder $folder has no rule" >&2; faults=$((faults + 1)); continue; }
  case " $allowed " in *" $header "*) continue ;; esac
  if [ -d "src/${header%%/*}" ] && [ -f "src/$header" ]; then
    case " $allowed " in *" ${header%%/*} "*) continue ;; esac
    fault "$file" "$header"
  else
    case $header in
    kiln/* | yaml.h | blake2.h | cJSON.h | cuda.h | nvrtc.h | cuda_*.h) fault "$file" "$header" ;;
    esac
    case " $pure " in
    *" $folder "*) if echo "$header" | grep -qE "^(${impure})$"; then fault "$file" "$header"; fi ;;
    esac
  fi
done <"$list"

if [ "$(wc -l <"$list")" -lt 50 ]; then
  echo "the search for #include lines found too few" >&2
  exit 1
fi
exit "$((faults > 0))"
