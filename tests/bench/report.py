#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the README's performance section from the newest file in tests/bench/results.

    tests/bench/report.py            rewrites README.md between its bench markers
    tests/bench/report.py --check    fails if README.md is not what the data say
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def bar_of(row, bars):
    """The bar of a row: ("ratio" or "us", value), or None."""
    if row["graph"]:
        for bar in bars["us"]:
            if bar["op"] == row["op"] and bar["num_tokens"] == row["dims"]["num_tokens"]:
                return "us", bar["bar"]
        return None
    for bar in bars["ratio"]:
        if bar["op"] != row["op"]:
            continue
        if any(row["params"].get(name) != value for name, value in bar["params"].items()):
            continue
        hidden = row["params"].get("hidden") or row["dims"].get("num_cols")
        return "ratio", bar["bar"] - (bar["less_at_2048"] if hidden == "2048" else 0)
    return None


def title(row):
    params = {k: v for k, v in row["params"].items() if k != "hidden"}
    words = [v if k in ("fmt", "in_dtype", "dtype") else f"{k}={v}" for k, v in params.items()]
    flags = {"use_tma_aligned_col_major_sf=true": "col-major sf", "use_packed_ue8m0=true": "packed UE8M0",
             "round_sf=true": "rounded", "without_transpose=true": "not transposed"}
    return " ".join(flags.get(word, word) for word in words)


def table(rows, bars):
    lines = ["| operator | case | H | T | us | GB/s | ratio to copy | bar |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        hidden = row["params"].get("hidden") or row["dims"].get("num_cols")
        tokens = row["dims"].get("num_tokens") or row["dims"].get("num_rows")
        bar = bar_of(row, bars)
        mark = ""
        if bar:
            met = row["us"] <= bar[1] if bar[0] == "us" else row["ratio"] >= bar[1] - 0.0005
            mark = f"{'<= %.1f us' % bar[1] if bar[0] == 'us' else '%.2f' % bar[1]}{'' if met else ' **missed**'}"
        lines.append(f"| {row['op']} | {title(row)}{' (graph)' if row['graph'] else ''} | {hidden} | {tokens} | "
                     f"{row['us']:.2f} | {row['gbps']:.0f} | {row['ratio']:.3f} | {mark} |")
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
