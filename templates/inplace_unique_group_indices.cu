// SPDX-License-Identifier: MIT
// Of a token's groups every later repeat becomes -1, in place. A thread a token: each slot is compared
// with those before it.
//
// needs: kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 128, K = int(NUM_TOPK);

template <bool FULL> KILN_DEVICE void unique(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 token = i64(blockIdx.x) * THREADS + threadIdx.x;
  if (token >= a.num_tokens) return;
  group_indices_t groups[K], kept[K];
  group_indices_t* row = a.group_indices + token * K;
  bool is_stray = false;
  read_slots<FULL>(row, groups);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    bool is_group = is_within(groups[k], NUM_GROUPS, &is_stray), is_repeat = false;
#pragma unroll
    for (int i = 0; i < k; ++i) is_repeat = is_repeat || groups[i] == groups[k];
    kept[k] = is_group ? (is_repeat ? -1 : groups[k]) : groups[k] < 0 ? groups[k] : -1;
  }
  write_slots<FULL>(row, kept);
  flag_stray(a.error, is_stray);
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    unique_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::unique<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    unique_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::unique<false>(a);
}
