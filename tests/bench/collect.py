#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts what tests/gpu/run.sh left in DIR into one file for tests/bench/results.

    tests/bench/collect.py DIR [REMARK ..] >tests/bench/results/GPU-DATE.json
"""
import csv
import json
import pathlib
import sys


def profiles(path):
    """The metrics of each profiled kernel, in the order of the runs."""
    rows = [line for line in path.read_text().splitlines() if line.startswith('"')]
    out = []
    for row in csv.DictReader(row for i, row in enumerate(rows) if i == 0 or not row.startswith('"ID"')):
        out.append({"kernel": row["Kernel Name"], "block": row["Block Size"], "grid": row["Grid Size"],
                    "metric": row["Metric Name"], "value": float(row["Metric Value"].replace(",", ""))})
    return out


def summary(path):
    return next(line for line in reversed(path.read_text(errors="replace").splitlines()) if "SUMMARY" in line)


def main():
    folder = pathlib.Path(sys.argv[1])

    def load(name):
        return json.loads((folder / name).read_text())

    bench = load("bench.json")
    for more in sorted(folder.glob("bench-*.json")):
        if more.name != "bench-pdl.json":
            bench["rows"] += json.loads(more.read_text())["rows"]
    check = load("check.json")
    check.pop("failures", None)
    print(json.dumps({
        "driver": (folder / "driver").read_text().strip(), "commit": bench["commit"], "remarks": sys.argv[2:],
        "bench": bench, "bench_pdl": load("bench-pdl.json"), "host": load("host.json"), "check": check,
        "golden": load("golden.json"), "profile": profiles(folder / "profile.csv"),
        "sanitizers": {tool: summary(folder / f"{tool}.log")
                       for tool in ("memcheck", "racecheck", "initcheck", "synccheck")}}, indent=1))


main()
