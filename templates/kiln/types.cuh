// SPDX-License-Identifier: MIT
// Names that everything else stands on: fixed-width integers, storage formats, values of a thread.
#pragma once

#define KILN_DEVICE __device__ __forceinline__

namespace kiln {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;
using f32 = float;

// Vectors for wide accesses; as aligned as they are long.
struct alignas(8) u32x2 {
  u32 x, y;
};
struct alignas(16) u32x4 {
  u32 x, y, z, w;
};

// Storage formats. The packed ones, e2m1 (two in a byte) and e5m6 (eight in three words), stand for
// their bytes: addresses are counted in bytes, see packed_bytes.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};
struct e4m3 {
  u8 bits;
};
struct e5m2 {
  u8 bits;
};
struct e2m1 {
  u8 bits;
};
struct e5m6 {
  u8 bits;
};

template <class T> struct format {
  static constexpr int BITS = sizeof(T) * 8;
};
template <class T> struct format<const T> : format<T> {};
template <> struct format<e2m1> {
  static constexpr int BITS = 4;
};
template <> struct format<e5m6> {
  static constexpr int BITS = 12;
};

// Bytes of `count` elements that fill whole groups.
template <class T> KILN_DEVICE constexpr i64 packed_bytes(i64 count) {
  return count * format<T>::BITS / 8;
}

// Element `index` of those at p; of a packed format it begins a whole byte, or three words.
template <class T> KILN_DEVICE T* at(T* p, i64 index) {
  if constexpr (format<T>::BITS == sizeof(T) * 8) {
    return p + index;
  } else {
    return p + packed_bytes<T>(index);
  }
}

// An optional scalar or tensor that is absent.
struct none {};
template <class T> struct is_there {
  static constexpr bool VALUE = true;
};
template <> struct is_there<none> {
  static constexpr bool VALUE = false;
};

// Where a row waits between two stages that need all of it; NOWHERE: it is read again.
enum class RowHeld { REGISTERS, SHARED, NOWHERE };

enum class SfLayout { ROW_MAJOR, COL_MAJOR, PACKED_UE8M0 };

// The values a thread holds between stages: PARTS rows (gate and up, or one) of N values.
template <int P, int N> struct Values {
  static constexpr int PARTS = P;
  static constexpr int COUNT = N;
  f32 v[P][N];
};

KILN_DEVICE constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
KILN_DEVICE constexpr i64 align_up(i64 a, i64 b) { return ceil_div(a, b) * b; }
KILN_DEVICE constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }
// The smallest power of two from `a` on.
KILN_DEVICE constexpr int power_from(int a) {
  int power = 1;
  while (power < a) power *= 2;
  return power;
}
KILN_DEVICE constexpr int min_int(int a, int b) { return a < b ? a : b; }

// The largest power of two up to 16 that divides `bytes`: how wide an access can be.
KILN_DEVICE constexpr int access_width(int bytes) {
  int width = 1;
  while (width < 16 && bytes % (width * 2) == 0) width *= 2;
  return width;
}

}  // namespace kiln
