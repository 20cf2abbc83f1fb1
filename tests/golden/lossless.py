#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden cases of per_block_cast_lossless, computed here from the contract alone, in exact fractions.

usage: lossless.py FOLDER
"""
import random
import struct
import sys
from fractions import Fraction
from pathlib import Path

E2M1 = [Fraction(v, 2) for v in (0, 1, 2, 3, 4, 6, 8, 12)]


def e4m3_value(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    if exponent == 0:
        return Fraction(mantissa, 512)
    return Fraction(8 + mantissa, 8) * Fraction(2) ** (exponent - 7)


E4M3 = [e4m3_value(code) for code in range(0x7F)]


def nearest_even(value):
    """The code of the value nearest to `value`, from 0 to 448."""
    best = min(abs(value - v) for v in E4M3)
    codes = [code for code, v in enumerate(E4M3) if abs(value - v) == best]
    return next((code for code in codes if code % 2 == 0), codes[0])


def cast(codes, bits, tokens, hidden, block, out_block):
    """Codes and scale factor bits of the result, and the error word."""
    (mi, ni), (mo, no) = block, out_block
    columns = -(-hidden // ni)
    error = 0
    exponents = []
    for b in bits:
        exponent = b >> 23 & 255
        exponents.append(min(max(exponent, 1), 254))
        error |= b != exponents[-1] << 23
    out, out_sf = [0] * (tokens * hidden), []
    for r in range(0, tokens, mo):
        for c in range(0, hidden, no):
            places = [(t, h) for t in range(r, min(r + mo, tokens)) for h in range(c, min(c + no, hidden))]
            largest = max(exponents[t // mi * columns + h // ni] for t, h in places)
            exponent = max(largest - 6, 1)
            out_sf.append(exponent << 23)
            for t, h in places:
                code = codes[t * hidden + h]
                power = exponents[t // mi * columns + h // ni] - exponent
                value = E2M1[code & 7] * Fraction(2) ** power
                magnitude = nearest_even(value)
                error |= E4M3[magnitude] != value
                out[t * hidden + h] = (code & 8) << 4 | magnitude
    return out, out_sf, error


def write(folder, name, codes, bits, tokens, hidden, block, out_block, error_in):
    out, out_sf, error = cast(codes, bits, tokens, hidden, block, out_block)
    grids = [-(-tokens // b[0]) for b in (block, out_block)], [-(-hidden // b[1]) for b in (block, out_block)]
    text = f"""case per_block_cast_lossless
param x_num_per_tokens {block[0]}
param x_num_per_channels {block[1]}
param num_per_tokens {out_block[0]}
param num_per_channels {out_block[1]}
in x u8 {tokens} {hidden // 2}
in x_sf f32 {grids[0][0]} {grids[1][0]}
in error_in i32 1
out out u8 {tokens} {hidden}
out out_sf f32 {grids[0][1]} {grids[1][1]}
out error i32 1

"""
    packed = bytes(codes[i] | codes[i + 1] << 4 for i in range(0, len(codes), 2))
    words = struct.pack(f"<{len(bits)}I", *bits) + struct.pack("<i", error_in)
    result = bytes(out) + struct.pack(f"<{len(out_sf)}I", *out_sf) + struct.pack("<i", error_in | error)
    Path(folder, f"per_block_cast_lossless.{name}.golden").write_bytes(text.encode() + packed + words + result)


def main():
    folder = sys.argv[1]
    rng = random.Random(1)
    for name, block, out_block, tokens, hidden in (
        ("row", (1, 32), (1, 128), 5, 256),
        ("square", (1, 32), (32, 32), 33, 96),
        ("large", (32, 32), (128, 128), 130, 160),
    ):
        blocks = -(-tokens // block[0]) * -(-hidden // block[1])
        codes = [rng.randrange(16) for _ in range(tokens * hidden)]
        # Exponents so close that every code is exact, and an error word that is set already.
        write(folder, f"{name}_exact", codes, [rng.randrange(120, 133) << 23 for _ in range(blocks)], tokens,
              hidden, block, out_block, 4)
        # At the lower end of the exponents, where the result's does not go below 1.
        write(folder, f"{name}_small", codes, [rng.randrange(1, 9) << 23 for _ in range(blocks)], tokens, hidden,
              block, out_block, 0)
        # Up to 40 apart, and some that are no power of two.
        bits = [rng.choice((rng.randrange(100, 141) << 23, 0, 0x00400000, 0x3FC00000, 0xC0000000, 0x7F800000,
                            254 << 23)) for _ in range(blocks)]
        write(folder, f"{name}_lossy", codes, bits, tokens, hidden, block, out_block, 0)
    # Exponents up to 14 apart are exact, since 0.5 * 2^(6 - 14) is the smallest value of e4m3; zeros always are.
    for gap in range(11, 17):
        codes = [rng.randrange(16) for _ in range(32)] + [0, 8] * 16 + list(range(16)) * 4
        bits = [140 << 23, 20 << 23] + [(140 - gap) << 23] * 2
        write(folder, f"gap_{gap}", codes, bits, 1, 128, (1, 32), (1, 128), 0)


main()
