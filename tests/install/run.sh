#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the build into a temporary folder, builds a consumer with find_package and with pkg-config, and
# compares the exported symbols with src/kiln.map.
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
"$work/prefix/bin/kiln" --version >/dev/null 2>&1 || "$work/prefix/bin/kiln" list >/dev/null

cat >"$work/consumer.c" <<'C'
#include <kiln/kiln.h>
#include <stdio.h>
int main(void) { return puts(kiln_version()) < 0; }
C
cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(kiln REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer kiln::kiln)
CMAKE
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/consumer"

pc=$(find "$work/prefix" -name kiln.pc)
libdir=$(dirname "$(dirname "$pc")")
# The installed file names the configured prefix; a packager's DESTDIR does the same.
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$work/prefix" --cflags --libs kiln)
# shellcheck disable=SC2086
cc "$work/consumer.c" -o "$work/pc" $flags -Wl,-rpath,"$libdir"
"$work/pc"

nm -D --defined-only "$libdir/libkiln.so" | awk '$2 == "T" {sub("@.*", "", $3); print $3}' | sort >"$work/exported"
grep -oE '^ +kiln_[a-z_]+;' "$source/src/kiln.map" | tr -d ' ;' | sort >"$work/listed"
diff "$work/listed" "$work/exported"
