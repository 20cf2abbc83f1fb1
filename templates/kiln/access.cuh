// SPDX-License-Identifier: MIT
// A thread's consecutive values from and to global memory: full-width vectors, or element by element
// where a pointer or stride is not aligned.
#pragma once
#include "kiln/convert.cuh"

namespace kiln {

// What an access of WIDTH bytes moves.
template <int WIDTH> struct access;
template <> struct access<1> {
  using type = u8;
};
template <> struct access<2> {
  using type = u16;
};
template <> struct access<4> {
  using type = u32;
};
template <> struct access<8> {
  using type = u32x2;
};
template <> struct access<16> {
  using type = u32x4;
};

template <class T> KILN_DEVICE T from_bits(u32 bits) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(bits);
  } else {
    return T{u16(bits)};
  }
}

KILN_DEVICE void spread(u32 v, u32* out) { out[0] = v; }
KILN_DEVICE void spread(u32x2 v, u32* out) {
  out[0] = v.x;
  out[1] = v.y;
}
KILN_DEVICE void spread(u32x4 v, u32* out) {
  out[0] = v.x;
  out[1] = v.y;
  out[2] = v.z;
  out[3] = v.w;
}

// Reads N elements at p as f32, or where not `inside` gives zeros. Codes have an address where they fill
// whole bytes, those of e5m6 whole words.
template <bool FULL, int N, class T>
KILN_DEVICE void read(const T* p, bool inside, f32 (&out)[N]) {
  constexpr int BYTES = N * format<T>::BITS / 8, WIDTH = access_width(BYTES);
  if constexpr ((FULL && WIDTH >= 4) || format<T>::BITS == 12) {
    using vector_t = typename access<FULL ? WIDTH : 4>::type;
    constexpr int EACH = int(sizeof(vector_t));
    u32 words[BYTES / 4] = {};
    if (inside) {
#pragma unroll
      for (int i = 0; i < BYTES / EACH; ++i) {
        spread(ptx::load_cs(reinterpret_cast<const vector_t*>(p) + i), &words[i * EACH / 4]);
      }
    }
    unpack<T>(words, out);
  } else if constexpr (format<T>::BITS <= 8) {
    u32 words[(BYTES + 3) / 4] = {};
    if (inside) {
#pragma unroll
      for (int i = 0; i < BYTES; ++i) {
        words[i / 4] |= u32(ptx::load_cs(reinterpret_cast<const u8*>(p) + i)) << i % 4 * 8;
      }
    }
    unpack<T>(words, out);
  } else {
    using bits_t = typename access<sizeof(T)>::type;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      u32 bits = inside ? ptx::load_cs(reinterpret_cast<const bits_t*>(p) + i) : 0;
      out[i] = to_f32(from_bits<T>(bits));
    }
  }
}

KILN_DEVICE u32 two_bits(bf16, f32 low, f32 high) { return ptx::bf16x2_from_f32(low, high); }
KILN_DEVICE u32 two_bits(f16, f32 low, f32 high) { return ptx::f16x2_from_f32(low, high); }

// Writes N values as elements at p.
template <bool FULL, int N, class T> KILN_DEVICE void write_values(T* p, const f32 (&v)[N]) {
  constexpr int BYTES = N * int(sizeof(T)), SIZE = int(sizeof(T));
  constexpr int WIDTH = FULL ? access_width(BYTES) : SIZE;
  using vector_t = typename access<WIDTH>::type;
  u32 words[(BYTES + 3) / 4];
#pragma unroll
  for (int i = 0; i < (BYTES + 3) / 4; ++i) {
    if constexpr (SIZE == 4) {
      words[i] = __float_as_uint(v[i]);
    } else {
      words[i] = two_bits(T{}, v[i * 2], N > 1 ? v[min_int(i * 2 + 1, N - 1)] : 0.0f);
    }
  }
#pragma unroll
  for (int i = 0; i < BYTES / WIDTH; ++i) {
    vector_t out;
    if constexpr (WIDTH == 16) {
      out = {words[i * 4], words[i * 4 + 1], words[i * 4 + 2], words[i * 4 + 3]};
    } else if constexpr (WIDTH == 8) {
      out = {words[i * 2], words[i * 2 + 1]};
    } else {
      out = vector_t(words[i * WIDTH / 4] >> i * WIDTH % 4 * 8);
    }
    ptx::store_cs(reinterpret_cast<vector_t*>(p) + i, out);
  }
}

// Writes N codes at byte address p.
template <bool FULL, class F, int N> KILN_DEVICE void write(u8* p, const Codes<F, N>& codes) {
  constexpr int BYTES = Codes<F, N>::BYTES;
  // Three words of e5m6 are the unit that a pointer is aligned to.
  constexpr int WIDTH = FULL ? access_width(BYTES) : format<F>::BITS == 12 ? 4 : 1;
  using vector_t = typename access<WIDTH>::type;
#pragma unroll
  for (int i = 0; i < BYTES / WIDTH; ++i) {
    vector_t v;
    if constexpr (WIDTH == 16) {
      v = {codes.w[i * 4], codes.w[i * 4 + 1], codes.w[i * 4 + 2], codes.w[i * 4 + 3]};
    } else if constexpr (WIDTH == 8) {
      v = {codes.w[i * 2], codes.w[i * 2 + 1]};
    } else {
      v = vector_t(codes.w[i * WIDTH / 4] >> i * WIDTH % 4 * 8);
    }
    ptx::store_cs(reinterpret_cast<vector_t*>(p) + i, v);
  }
}

}  // namespace kiln
