// SPDX-License-Identifier: MIT
// The share of slots that each expert has, scaled by the number of experts: count * E / (T * aux).
// Blocks add their counts to those in the workspace, which the step `clear` has set to 0, and the block
// that comes last divides. One block alone needs neither.
//
// Shared bytes: 4 * NUM_EXPERTS; workspace: NUM_EXPERTS counts and a ticket
// needs: kiln/count.cuh
namespace kiln {

constexpr int THREADS = 256;
using ExpertCounts = Counts<NUM_EXPERTS>;
static_assert(sizeof(ExpertCounts) == 4 * NUM_EXPERTS, "the spec counts so");

KILN_DEVICE void write_share(const kiln_args& a, i64 expert, u32 count) {
  i64 whole = a.num_tokens * a.num_aux_topk;
  a.out[expert] = whole ? __fdiv_rn(f32(i64(count) * NUM_EXPERTS), f32(whole)) : 0.0f;
}

// Whether this block is the last to come here; what the others wrote before is then seen by all of it.
KILN_DEVICE bool is_last_block(u32* ticket) {
  __threadfence();
  __syncthreads();
  bool is_last = threadIdx.x == 0 && atomicAdd(ticket, 1u) == gridDim.x - 1;
  is_last = __syncthreads_or(is_last);
  __threadfence();
  return is_last;
}

template <bool FULL> KILN_DEVICE void shares(const kiln_args& a) {
  ExpertCounts& counts = shared<ExpertCounts>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  count_part<FULL, THREADS>(a.topk_idx, a.num_tokens * NUM_TOPK, a.error, counts);
  if (gridDim.x == 1) {
    for (i64 i = threadIdx.x; i < NUM_EXPERTS; i += THREADS) write_share(a, i, counts.of[i]);
    return;
  }
  u32* all = reinterpret_cast<u32*>(a.workspace);
  add_counts<THREADS>(counts, all);
  if (!is_last_block(all + NUM_EXPERTS)) return;
  const volatile u32* sums = all;
  for (i64 i = threadIdx.x; i < NUM_EXPERTS; i += THREADS) write_share(a, i, sums[i]);
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    aux_fi_clear(const __grid_constant__ kiln::kiln_args a) {
  kiln::ptx::grid_launch_dependents();
  kiln::ptx::grid_dependency_wait();
  kiln::clear_words<kiln::THREADS>(reinterpret_cast<kiln::u32*>(a.workspace),
                                   kiln::NUM_EXPERTS + 1);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    aux_fi_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::shares<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    aux_fi_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::shares<false>(a);
}
