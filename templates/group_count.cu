// SPDX-License-Identifier: MIT
// How often each group occurs. One block writes its counts; several add theirs to what the step `clear`
// has set to 0.
//
// Shared bytes: 4 * NUM_GROUPS
// needs: kiln/count.cuh
namespace kiln {

constexpr int THREADS = 256;
using GroupCounts = Counts<NUM_GROUPS>;
static_assert(sizeof(GroupCounts) == 4 * NUM_GROUPS, "the spec counts so");

template <bool FULL> KILN_DEVICE void count(const kiln_args& a) {
  GroupCounts& counts = shared<GroupCounts>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  count_part<FULL, THREADS>(a.group_idx, a.num_tokens * NUM_TOPK, a.error, counts);
  u32* out = reinterpret_cast<u32*>(a.out);
  if (gridDim.x == 1) {
    for (i64 i = threadIdx.x; i < NUM_GROUPS; i += THREADS) out[i] = counts.of[i];
  } else {
    add_counts<THREADS>(counts, out);
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    group_count_clear(const __grid_constant__ kiln::kiln_args a) {
  kiln::ptx::grid_launch_dependents();
  kiln::ptx::grid_dependency_wait();
  kiln::clear_words<kiln::THREADS>(reinterpret_cast<kiln::u32*>(a.out), kiln::NUM_GROUPS);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    group_count_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::count<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    group_count_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::count<false>(a);
}
