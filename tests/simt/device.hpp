// SPDX-License-Identifier: MIT
// What emitted source needs when it is compiled as C++: CUDA's builtins over the harness's fibers.
// Included before the source by the fake NVRTC; the functions of namespace simt are in the fake
// driver.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)

namespace simt {

struct dim3 {
  unsigned x, y, z;
};

// The running thread; changes with every switch of fibers.
struct Thread {
  dim3 thread, block, block_size, grid;
};
extern "C" Thread *simt_thread();

// What warp operations do: every lane of `mask` deposits a value, all wait, each reads another's.
extern "C" void simt_sync_block(const char *what);
extern "C" int simt_sync_block_count(const char *what, int predicate);
extern "C" uint64_t simt_exchange(const char *what, uint32_t mask, uint64_t value, int from_lane);
extern "C" uint32_t simt_vote(const char *what, uint32_t mask, bool predicate);
extern "C" uint32_t simt_match(const char *what, uint32_t mask, uint64_t value);
extern "C" uint64_t simt_largest(const char *what, uint32_t mask, uint64_t value);
extern "C" void *simt_shared(size_t bytes);
extern "C" void simt_copy_async(void *shared, const void *global, size_t bytes);
extern "C" void simt_copy_async_wait();

inline void *shared_memory(size_t bytes) {
  return simt_shared(bytes);
}
inline void copy_async(void *to, const void *from, size_t bytes) {
  simt_copy_async(to, from, bytes);
}
inline void copy_async_wait() {
  simt_copy_async_wait();
}

inline int lane() {
  return int(simt_thread()->thread.x % 32);
}

template <class T>
uint64_t to_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace simt

#define threadIdx (simt::simt_thread()->thread)
#define blockIdx (simt::simt_thread()->block)
#define blockDim (simt::simt_thread()->block_size)
#define gridDim (simt::simt_thread()->grid)

inline void __syncthreads() {
  simt::simt_sync_block("__syncthreads");
}
inline int __syncthreads_count(int p) {
  return simt::simt_sync_block_count("__syncthreads_count", p);
}
inline int __syncthreads_or(int p) {
  return simt::simt_sync_block_count("__syncthreads_or", p != 0) != 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  (void)simt::simt_exchange("__syncwarp", mask, 0, simt::lane());
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return simt::from_bits<T>(
      simt::simt_exchange("__shfl_sync", mask, simt::to_bits(value), lane & 31));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other) {
  return simt::from_bits<T>(
      simt::simt_exchange("__shfl_xor_sync", mask, simt::to_bits(value), simt::lane() ^ other));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  int from = simt::lane() + int(by);
  return simt::from_bits<T>(simt::simt_exchange("__shfl_down_sync", mask, simt::to_bits(value),
                                                from < 32 ? from : simt::lane()));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  int from = simt::lane() - int(by);
  return simt::from_bits<T>(simt::simt_exchange("__shfl_up_sync", mask, simt::to_bits(value),
                                                from >= 0 ? from : simt::lane()));
}
inline unsigned __ballot_sync(unsigned mask, int p) {
  return simt::simt_vote("__ballot_sync", mask, p != 0);
}
inline int __any_sync(unsigned mask, int p) {
  return simt::simt_vote("__any_sync", mask, p != 0) != 0;
}
inline int __all_sync(unsigned mask, int p) {
  return simt::simt_vote("__all_sync", mask, p == 0) == 0;
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return unsigned(simt::simt_largest("__reduce_max_sync", mask, value));
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return ~unsigned(simt::simt_largest("__reduce_min_sync", mask, ~value));
}
inline unsigned __match_any_sync(unsigned mask, unsigned value) {
  return simt::simt_match("__match_any_sync", mask, value);
}

inline unsigned __float_as_uint(float x) {
  return simt::from_bits<unsigned>(simt::to_bits(x));
}
inline float __uint_as_float(unsigned x) {
  return simt::from_bits<float>(simt::to_bits(x));
}
inline int __float_as_int(float x) {
  return int(__float_as_uint(x));
}
inline float __int_as_float(int x) {
  return __uint_as_float(unsigned(x));
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __frsqrt_rn(float a) {
  return float(1 / std::sqrt(double(a)));
}
inline float __frcp_rn(float a) {
  return 1.0f / a;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __clz(unsigned x) {
  return x ? __builtin_clz(x) : 32;
}
inline int __ffs(unsigned x) {
  return __builtin_ffs(int(x));
}
template <class T>
T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}

inline void __threadfence() {}

// One fiber runs at a time, so a plain update is atomic.
template <class T>
T atomicAdd(T *p, T value) {
  T old = *p;
  *p = T(old + value);
  return old;
}
template <class T>
T atomicOr(T *p, T value) {
  T old = *p;
  *p = old | value;
  return old;
}
template <class T>
T atomicMax(T *p, T value) {
  T old = *p;
  if (value > old) *p = value;
  return old;
}
