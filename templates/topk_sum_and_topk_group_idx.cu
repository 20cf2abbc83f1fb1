// SPDX-License-Identifier: MIT
// The expert groups whose best one or two scores have the largest sum, best first. A warp a token.
//
// needs: kiln/topk.cuh kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 128, WARPS = THREADS / 32, K = int(NUM_TOPK_GROUPS);
constexpr int GROUPS = int(NUM_GROUPS), BEST = int(NUM_TOPK_SUM);
using Scores = Spread<GROUPS, int(GROUP_SIZE)>;
using Groups = GroupSpread<Scores>;

template <bool FULL> KILN_DEVICE void choose_groups(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 token = i64(blockIdx.x) * WARPS + threadIdx.x / 32;
  int lane = int(threadIdx.x % 32);
  if (token >= a.num_tokens) return;
  f32 scores[Scores::VALUES];
  u32 keys[Scores::VALUES], groups[Scores::ROUNDS];
  read_scores<FULL, Scores>(a.scores + token * NUM_GROUPS * GROUP_SIZE, lane, scores);
  keys_of<Scores>(scores, lane, keys);
  group_keys<Scores, GROUPS, BEST>(keys, lane, groups);
  take_best<Groups>(groups, Groups::base(lane), K, [&](int k, u32 index) {
    if (lane == k % 32) write_slots<true>(a.topk_group_idx + token * K + k, {topk_group_idx_t(index)});
  });
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    topk_groups_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::choose_groups<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    topk_groups_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::choose_groups<false>(a);
}
