// SPDX-License-Identifier: MIT
// All inline PTX. Each wrapper names its section of the PTX ISA (9.0) and has a twin in plain C++
// for the CPU harness.
#pragma once
#include "kiln/types.cuh"

namespace kiln::ptx {

// Whether cvt knows e2m1x2: sm_100 and later.
#if __CUDA_ARCH__ >= 1000
constexpr bool HAS_E2M1 = true;
#else
constexpr bool HAS_E2M1 = false;
#endif

#ifndef KILN_SIMT

// ld.global.cs, "Cache Operators": streaming, evicted first. Every access of a kernel has the same
// hint: mixed hints cost 3 to 8 %.
KILN_DEVICE u8 load_cs(const u8* p) {
  u32 v;
  asm volatile("ld.global.cs.u8 %0, [%1];" : "=r"(v) : "l"(p));
  return u8(v);
}
KILN_DEVICE u16 load_cs(const u16* p) {
  u16 v;
  asm volatile("ld.global.cs.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}
KILN_DEVICE u32 load_cs(const u32* p) {
  u32 v;
  asm volatile("ld.global.cs.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
KILN_DEVICE u32x2 load_cs(const u32x2* p) {
  u32x2 v;
  asm volatile("ld.global.cs.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
KILN_DEVICE u32x4 load_cs(const u32x4* p) {
  u32x4 v;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// st.global.cs, "Cache Operators".
KILN_DEVICE void store_cs(u8* p, u8 v) {
  asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(p), "r"(u32(v)) : "memory");
}
KILN_DEVICE void store_cs(u16* p, u16 v) {
  asm volatile("st.global.cs.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}
KILN_DEVICE void store_cs(u32* p, u32 v) {
  asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
KILN_DEVICE void store_cs(u32x2* p, u32x2 v) {
  asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
KILN_DEVICE void store_cs(u32x4* p, u32x4 v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

// cvt, "Data Movement and Conversion Instructions". .satfinite maps NaN to the positive canonical
// NaN (e4m3, e5m2) or to the largest value (e2m1).
KILN_DEVICE u16 e4m3x2_from_f32(f32 low, f32 high) {
  u16 v;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(high), "f"(low));
  return v;
}
KILN_DEVICE u16 e5m2x2_from_f32(f32 low, f32 high) {
  u16 v;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(v) : "f"(high), "f"(low));
  return v;
}
// Eight codes, the first in the lowest nibble; where HAS_E2M1.
KILN_DEVICE u32 e2m1x8_from_f32(const f32 (&v)[8]) {
  u32 w;
  asm("{\n\t.reg .b8 b0, b1, b2, b3;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b0, %2, %1;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b1, %4, %3;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b2, %6, %5;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b3, %8, %7;\n\t"
      "mov.b32 %0, {b0, b1, b2, b3};\n\t}"
      : "=r"(w)
      : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "f"(v[4]), "f"(v[5]), "f"(v[6]), "f"(v[7]));
  return w;
}
// e4m3x2 -> f16x2 is exact, and f16 -> f32 too.
KILN_DEVICE u32 f16x2_from_e4m3x2(u16 v) {
  u32 h;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(v));
  return h;
}
KILN_DEVICE u32 f16x2_from_e5m2x2(u16 v) {
  u32 h;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(h) : "h"(v));
  return h;
}
KILN_DEVICE f32 f32_from_f16(u16 h) {
  f32 v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
}
// Two at a time: the single conversion runs at a quarter of the rate.
KILN_DEVICE u32 f16x2_from_f32(f32 low, f32 high) {
  u32 v;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
KILN_DEVICE u32 bf16x2_from_f32(f32 low, f32 high) {
  u32 v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}

// Packed bf16: max and min, which leave NaN out, max.NaN, fma, "Half Precision Floating Point
// Instructions".
KILN_DEVICE u32 abs_bf16x2(u32 a) {
  u32 v;
  asm("abs.bf16x2 %0, %1;" : "=r"(v) : "r"(a));
  return v;
}
KILN_DEVICE u32 max_nan_bf16x2(u32 a, u32 b) {
  u32 v;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
KILN_DEVICE u32 max_bf16x2(u32 a, u32 b) {
  u32 v;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
KILN_DEVICE u32 min_bf16x2(u32 a, u32 b) {
  u32 v;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
KILN_DEVICE u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  u32 v;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
}

// max.NaN, "Floating Point Instructions: max": NaN if either operand is.
KILN_DEVICE f32 max_nan(f32 a, f32 b) {
  f32 v;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}
// rcp.approx.ftz, "Floating Point Instructions: rcp": within 1 ulp, for |a| below 2^126.
KILN_DEVICE f32 rcp_approx(f32 a) {
  f32 v;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(a));
  return v;
}
// ex2.approx, "Floating Point Instructions: ex2": within 2 ulp.
KILN_DEVICE f32 ex2_approx(f32 a) {
  f32 v;
  asm("ex2.approx.f32 %0, %1;" : "=f"(v) : "f"(a));
  return v;
}
// mul.rn, "Floating Point Instructions: mul": never contracted; a NaN result is 0x7fffffff.
KILN_DEVICE f32 mul(f32 a, f32 b) { return __fmul_rn(a, b); }

// griddepcontrol, "Parallel Synchronization and Communication Instructions": nothing may be read or
// written before the wait when kernels are launched programmatically dependent.
KILN_DEVICE void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
KILN_DEVICE void grid_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// cp.async, "Data Movement: Non-bulk copy": 16 bytes from global to shared memory, past L1; with
// `inside` false nothing is read and zeros are written.
KILN_DEVICE void copy_async_16(void* shared, const void* global, bool inside) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(u32(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(inside ? 16 : 0)
      : "memory");
}
KILN_DEVICE void copy_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// prmt, "Integer: prmt": picks four bytes of {b, a} by the nibbles of `selector`.
KILN_DEVICE u32 byte_permute(u32 a, u32 b, u32 selector) {
  u32 v;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(selector));
  return v;
}

#else  // twins

template <class T> KILN_DEVICE T load_cs(const T* p) { return *p; }
template <class T> KILN_DEVICE void store_cs(T* p, T v) { *p = v; }

// Rounds |v| to MANTISSA bits, nearest even, down to exponent MIN_EXP, saturating at MAX; the
// exponent field and mantissa as an integer.
template <int MANTISSA, int MIN_EXP> KILN_DEVICE u32 narrow_magnitude(f32 v, f32 max) {
  f32 a = __uint_as_float(__float_as_uint(v) & 0x7fffffffu);  // -0 too
  if (!(a < max)) a = max;
  int e = int(__float_as_uint(a) >> 23) - 127;
  if (e < MIN_EXP) e = MIN_EXP;
  f32 scaled = a * __uint_as_float(u32(127 + MANTISSA - e) << 23);  // exact
  u32 n = u32(scaled);
  f32 rest = scaled - f32(n);
  if (rest > 0.5f || (rest == 0.5f && (n & 1))) ++n;
  return n + (u32(e - MIN_EXP) << MANTISSA);
}
KILN_DEVICE u8 e4m3_from_f32(f32 v) {
  if (v != v) return 0x7f;
  return u8(narrow_magnitude<3, -6>(v, 448.0f) | (__float_as_uint(v) >> 31 << 7));
}
KILN_DEVICE u8 e5m2_from_f32(f32 v) {
  if (v != v) return 0x7f;
  return u8(narrow_magnitude<2, -14>(v, 57344.0f) | (__float_as_uint(v) >> 31 << 7));
}
KILN_DEVICE u16 e4m3x2_from_f32(f32 low, f32 high) {
  return u16(e4m3_from_f32(low) | e4m3_from_f32(high) << 8);
}
KILN_DEVICE u16 e5m2x2_from_f32(f32 low, f32 high) {
  return u16(e5m2_from_f32(low) | e5m2_from_f32(high) << 8);
}
KILN_DEVICE u32 e2m1x8_from_f32(const f32 (&v)[8]) {
  u32 w = 0;
  for (int i = 0; i < 8; ++i) {
    u32 sign = v[i] != v[i] ? 0 : __float_as_uint(v[i]) >> 31 << 3;
    w |= (narrow_magnitude<1, 0>(v[i], 6.0f) | sign) << i * 4;
  }
  return w;
}
KILN_DEVICE f32 f32_from_f16(u16 h) {
  u32 sign = u32(h >> 15) << 31, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  f32 v = f32(mantissa) * 0x1p-24f;
  return sign ? -v : v;
}
KILN_DEVICE u16 f16_from_f32(f32 v) {
  u32 sign = __float_as_uint(v) >> 31 << 15;
  if (v != v) return 0x7fff;
  f32 a = v < 0 ? -v : v;
  if (a >= 65520.0f) return u16(sign | 0x7c00);
  return u16(sign | narrow_magnitude<10, -14>(v, 0x1p16f));
}
KILN_DEVICE u16 bf16_from_f32(f32 v) {
  u32 bits = __float_as_uint(v);
  if (v != v) return 0x7fff;
  return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
KILN_DEVICE u32 f16x2_from_f32(f32 low, f32 high) {
  return f16_from_f32(low) | u32(f16_from_f32(high)) << 16;
}
KILN_DEVICE u32 bf16x2_from_f32(f32 low, f32 high) {
  return bf16_from_f32(low) | u32(bf16_from_f32(high)) << 16;
}
KILN_DEVICE u32 f16x2_from_e5m2x2(u16 v) { return u32(v & 0xff) << 8 | u32(v >> 8) << 24; }
KILN_DEVICE u16 f16_from_e4m3(u8 v) {
  u32 exponent = v >> 3 & 15, mantissa = v & 7;
  if ((v & 0x7f) == 0x7f) return 0x7fff;
  f32 a =
      exponent ? __uint_as_float((exponent + 120) << 23 | mantissa << 20) : f32(mantissa) * 0x1p-9f;
  return f16_from_f32(v >> 7 ? -a : a);
}
KILN_DEVICE u32 f16x2_from_e4m3x2(u16 v) {
  return f16_from_e4m3(u8(v)) | u32(f16_from_e4m3(u8(v >> 8))) << 16;
}
KILN_DEVICE f32 low_bf16(u32 v) { return __uint_as_float(v << 16); }
KILN_DEVICE f32 high_bf16(u32 v) { return __uint_as_float(v & 0xffff0000u); }
KILN_DEVICE u32 abs_bf16x2(u32 a) { return a & 0x7fff7fffu; }
KILN_DEVICE f32 max_nan(f32 a, f32 b) { return a != a || b != b ? a + b : a > b ? a : b; }
KILN_DEVICE u32 max_nan_bf16x2(u32 a, u32 b) {
  return bf16x2_from_f32(max_nan(low_bf16(a), low_bf16(b)), max_nan(high_bf16(a), high_bf16(b)));
}
KILN_DEVICE u32 max_bf16x2(u32 a, u32 b) {
  return bf16x2_from_f32(fmaxf(low_bf16(a), low_bf16(b)), fmaxf(high_bf16(a), high_bf16(b)));
}
KILN_DEVICE u32 min_bf16x2(u32 a, u32 b) {
  return bf16x2_from_f32(fminf(low_bf16(a), low_bf16(b)), fminf(high_bf16(a), high_bf16(b)));
}
// Exact in f64, where products of bf16 and sums of them fit but for far apart exponents; the
// kernels add values whose exponents are close.
KILN_DEVICE u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  f32 low = f32(double(low_bf16(a)) * low_bf16(b) + low_bf16(c));
  f32 high = f32(double(high_bf16(a)) * high_bf16(b) + high_bf16(c));
  return bf16x2_from_f32(low, high);
}
KILN_DEVICE f32 rcp_approx(f32 a) { return 1.0f / a; }
KILN_DEVICE f32 ex2_approx(f32 a) { return exp2f(a); }
KILN_DEVICE f32 mul(f32 a, f32 b) {
  f32 v = a * b;
  return v != v ? __uint_as_float(0x7fffffffu) : v;
}
KILN_DEVICE void grid_dependency_wait() {}
KILN_DEVICE void grid_launch_dependents() {}
KILN_DEVICE void copy_async_16(void* shared, const void* global, bool inside) {
  if (inside) {
    simt::copy_async(shared, global, 16);
  } else {
    *static_cast<u32x4*>(shared) = u32x4{0, 0, 0, 0};
  }
}
KILN_DEVICE void copy_async_wait_all() { simt::copy_async_wait(); }
KILN_DEVICE u32 byte_permute(u32 a, u32 b, u32 selector) {
  u64 bytes = u64(b) << 32 | a;
  u32 v = 0;
  for (int i = 0; i < 4; ++i) v |= u32(bytes >> (selector >> i * 4 & 7) * 8 & 255) << i * 8;
  return v;
}

#endif

// Two bf16 values with infinities and NaN replaced by `most`, which keeps an infinity's sign.
KILN_DEVICE u32 make_ordinary_bf16x2(u32 v, f32 most) {
  u32 out = v, bits = __float_as_uint(most) >> 16;
#pragma unroll
  for (int shift = 0; shift < 32; shift += 16) {
    u32 half = v >> shift & 0xffffu;
    if ((half & 0x7fffu) < 0x7f80u) continue;
    u32 sign = (half & 0x7fffu) == 0x7f80u ? half & 0x8000u : 0;
    out = (out & ~(0xffffu << shift)) | (sign | bits) << shift;
  }
  return out;
}

}  // namespace kiln::ptx

namespace kiln {

// The block's dynamic shared memory as an object.
#ifndef KILN_SIMT
extern __shared__ u32x4 shared_memory[];
template <class T> KILN_DEVICE T& shared() {
  static_assert(alignof(T) <= 16, "dynamic shared memory is aligned to 16 bytes");
  return *reinterpret_cast<T*>(shared_memory);
}
#else
template <class T> KILN_DEVICE T& shared() {
  return *static_cast<T*>(simt::shared_memory(sizeof(T)));
}
#endif

}  // namespace kiln
