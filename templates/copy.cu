// SPDX-License-Identifier: MIT
// The plain copy that every ratio of `kiln bench` refers to: 256 threads, one 16-byte vector a thread,
// a flat grid. No programmatic dependent launch of its own making: it waits and triggers as all do.
//
// needs: kiln/access.cuh
namespace kiln {

constexpr int THREADS = 256;

template <bool FULL> KILN_DEVICE void copy(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 at = (i64(blockIdx.x) * THREADS + threadIdx.x) * 16;
  if (FULL && at + 16 <= a.num_bytes) {
    ptx::store_cs(reinterpret_cast<u32x4*>(a.out + at),
                  ptx::load_cs(reinterpret_cast<const u32x4*>(a.x + at)));
    return;
  }
  for (int i = 0; i < 16; ++i) {
    if (at + i < a.num_bytes) ptx::store_cs(a.out + at + i, ptx::load_cs(a.x + at + i));
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    copy_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::copy<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    copy_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::copy<false>(a);
}
