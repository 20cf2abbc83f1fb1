// SPDX-License-Identifier: MIT
// Expert ids as the ids that they have on this tensor-parallel rank, -1 where they lie on another. One
// 16-byte vector of ids a thread.
//
// needs: kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 256, IDS = 16 / int(sizeof(indices_t));

KILN_DEVICE void mask(const kiln_args& a, const ParallelRanks& ranks, const indices_t (&ids)[IDS],
                      int count, indices_t (&out)[IDS]) {
  bool is_stray = false;
#pragma unroll
  for (int i = 0; i < IDS; ++i) {
    bool is_expert = i < count && is_within(ids[i], a.n, &is_stray);
    out[i] = is_expert ? ranks.local_expert(u32(ids[i])) : -1;
  }
  flag_stray(a.error, is_stray);
}

template <bool FULL> KILN_DEVICE void mask_all(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 at = (i64(blockIdx.x) * THREADS + threadIdx.x) * IDS, left = a.num_tokens * NUM_TOPK - at;
  if (left <= 0) return;
  ParallelRanks ranks = {u32(a.n / a.num_ep_ranks), u32(a.num_tp_ranks), u32(a.tp_rank)};
  indices_t ids[IDS], out[IDS];
  if (left >= IDS) {
    read_slots<FULL>(a.indices + at, ids);
    mask(a, ranks, ids, IDS, out);
    write_slots<FULL>(a.masked_indices + at, out);
    return;
  }
  for (int i = 0; i < IDS; ++i) ids[i] = i < left ? a.indices[at + i] : -1;
  mask(a, ranks, ids, int(left), out);
  for (int i = 0; i < left; ++i) a.masked_indices[at + i] = out[i];
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    mask_indices_by_tp_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::mask_all<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    mask_indices_by_tp_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::mask_all<false>(a);
}
