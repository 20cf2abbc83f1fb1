#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the README's performance section from the newest file in tests/bench/results.

    tests/bench/report.py            rewrites README.md between its bench markers
    tests/bench/report.py --check    fails if README.md is not what the data say
    kiln bench --list --json | tests/bench/report.py --bars
                                     fails if no case of the suites has to reach some bar
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def line_of(row, bars):
    """The line of bars.json that a row must reach: (kind, line), or None."""
    if row["graph"]:
        for bar in bars["us"]:
            if bar["op"] == row["op"] and bar["num_tokens"] == row["dims"].get("num_tokens"):
                return "us", bar
        for bar in bars["times"]:
            if bar["op"] == row["op"]:
                return "times", bar
        return None
    for bar in bars["ratio"]:
        if bar["op"] == row["op"] and all(row["params"].get(name) == value for name, value in bar["params"].items()):
            return "ratio", bar
    return None


def hidden_of(row):
    return row["params"].get("hidden") or row["dims"].get("num_cols") or ""


def mark(row, bars):
    """What the table says of a row's bar."""
    found = line_of(row, bars)
    if not found:
        return ""
    kind, line = found
    bar = line["bar"]
    if kind == "us":
        text, met = f"<= {bar:.1f} us", row["us"] <= bar
    elif kind == "times":
        text, met = f"<= {bar:.1f} x copy", row["us"] <= bar * row["copy_us"]
    else:
        bar -= line["less_at_2048"] if hidden_of(row) == "2048" else 0
        text, met = f"{bar:.2f}", row["ratio"] >= bar - 0.0005
    return text + ("" if met else " **missed**")


def check_bars(rows, bars):
    """Every line of bars.json must be that of some row."""
    used = [found[1] for found in (line_of(row, bars) for row in rows) if found]
    for kind in ("ratio", "us", "times"):
        for line in bars[kind]:
            if line not in used:
                sys.exit(f"tests/bench/bars.json: no case of the suites has this {kind} bar: {line}")


def title(row):
    params = {k: v for k, v in row["params"].items() if k != "hidden"}
    words = [v if k in ("fmt", "in_dtype", "dtype") else f"{k}={v}" for k, v in params.items()]
    flags = {"use_tma_aligned_col_major_sf=true": "col-major sf", "use_packed_ue8m0=true": "packed UE8M0",
             "round_sf=true": "rounded", "without_transpose=true": "not transposed"}
    return " ".join(flags.get(word, word) for word in words)


def table(rows, bars):
    lines = ["| operator | case | H | T | us | GB/s | ratio to copy | bar |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        tokens = row["dims"].get("num_tokens") or row["dims"].get("num_rows") or row["dims"]["num_expanded_tokens"]
        lines.append(f"| {row['op']} | {title(row)}{' (graph)' if row['graph'] else ''} | {hidden_of(row)} | {tokens} | "
                     f"{row['us']:.2f} | {row['gbps']:.0f} | {row['ratio']:.3f} | {mark(row, bars)} |")
    return lines


def section(data, bars):
    bench, host = data["bench"], data["host"]["host"]
    lines = [f"Measured {bench['date'][:10]} on one {bench['gpu']} ({bench['num_sms']} SMs), driver {data['driver']}, "
             f"commit {data['commit']}, by `kiln bench`: the ratio is the time of the best plain copy of as many bytes "
             "(256 threads, one 16-byte vector a thread, `.cs`) over the kernel's, in the same run, interleaved.", ""]
    lines += [*data["remarks"], ""]
    lines += table(bench["rows"], bars)
    lines += ["", "| host | |", "|---|---|",
              f"| repeat request, from memory | {host['memory_hit_ns']:.0f} ns |",
              f"| disk hit without a GPU, NVRTC not loaded | {host['disk_hit_us']:.0f} us |",
              f"| emit and compile per_token_cast, cold | {host['per_token_cast_ratio']:.1f} x an empty kernel |",
              f"| emit and compile the SwiGLU chain, cold | {host['swiglu_chain_ratio']:.1f} x an empty kernel |", ""]
    check = data["check"]
    lines += [f"`kiln run --all --check` on it: {check['cases']} cases of {check['kernels']} kernels, {check['elements']} "
              f"elements compared, {check['failed']} failed; {data['golden']['cases']} recorded cases, "
              f"{data['golden']['failed']} failed; memcheck, racecheck, initcheck and synccheck clean."]
    return "\n".join(lines)


def main():
    bars = json.loads((ROOT / "tests/bench/bars.json").read_text())
    if "--bars" in sys.argv:
        check_bars(json.load(sys.stdin)["rows"], bars)
        return
    newest = sorted((ROOT / "tests/bench/results").glob("*.json"))[-1]
    data = json.loads(newest.read_text())
    readme = (ROOT / "README.md").read_text()
    head, rest = readme.split(BEGIN)
    tail = rest.split(END)[1]
    wanted = f"{head}{BEGIN}\n{section(data, bars)}\n{END}{tail}"
    if "--check" in sys.argv:
        if wanted != readme:
            sys.exit("README.md is not what tests/bench/results say: run tests/bench/report.py")
        return
    (ROOT / "README.md").write_text(wanted)


main()
