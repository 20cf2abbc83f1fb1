// SPDX-License-Identifier: MIT
// Routing in one pass: scores, groups, the best experts, their weights, physical replicas and the ranks
// that they live on. A warp a token; lane k has slot k.
//
// needs: kiln/scoring.cuh kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 128, WARPS = THREADS / 32, K = int(NUM_TOPK);
constexpr bool IS_GROUPED = NUM_GROUPS != NUM_TOPK_GROUPS;
constexpr int GROUPS = IS_GROUPED ? int(NUM_GROUPS) : 1, SIZE = int(NUM_EXPERTS) / GROUPS;
constexpr bool IS_SOFTMAX = SCORING_FUNC == SCORING_FUNC_SOFTMAX;
using Scores = Spread<GROUPS, SIZE>;
using Groups = GroupSpread<Scores>;
using index_t = topk_idx_t;

// The score of a logit; a softmax needs the whole row.
KILN_DEVICE f32 score(f32 x, const Softmax& row) {
  if constexpr (IS_SOFTMAX) {
    return row.score(x);
  } else if constexpr (SCORING_FUNC == SCORING_FUNC_SIGMOID) {
    return sigmoid(x);
  } else {
    return sqrt_softplus(x);
  }
}

// What experts are ranked by, as keys: score + bias, for a softmax the logit itself + bias.
template <bool FULL>
KILN_DEVICE void ranking_keys(const f32* bias, const f32 (&logits)[Scores::VALUES], int lane,
                              u32 (&keys)[Scores::VALUES]) {
  const f32* from = bias + Scores::base(lane);
#pragma unroll
  for (int j = 0; j < Scores::VALUES; j += Scores::WIDTH) {
    f32 run[Scores::WIDTH];
    read<FULL>(from + Scores::offset(j), Scores::is_score(lane, j), run);
#pragma unroll
    for (int i = 0; i < Scores::WIDTH; ++i) {
      f32 base = IS_SOFTMAX ? logits[j + i] : score(logits[j + i], Softmax{});
      keys[j + i] = Scores::is_score(lane, j + i) ? rank_key(__fadd_rn(base, run[i])) : NO_KEY;
    }
  }
}

// Takes experts out of the running whose group is not among the best.
KILN_DEVICE void keep_best_groups(u32 (&keys)[Scores::VALUES], int lane) {
  u32 groups[Scores::ROUNDS];
  u64 kept = 0;
  group_keys<Scores, GROUPS, SIZE == 1 ? 1 : 2>(keys, lane, groups);
  take_best<Groups>(groups, Groups::base(lane), int(NUM_TOPK_GROUPS),
                    [&](int, u32 group) { kept |= u64(1) << group; });
#pragma unroll
  for (int j = 0; j < Scores::VALUES; ++j) {
    int group = Groups::base(lane) + Groups::offset(j / Scores::IN_ROUND);
    if (!(kept >> group & 1)) keys[j] = NO_KEY;
  }
}

// The expert of the lane's slot by rank.
template <bool FULL>
KILN_DEVICE i32 choose(const kiln_args& a, const f32 (&logits)[Scores::VALUES], int lane) {
  u32 keys[Scores::VALUES];
  i32 expert = -1;
  ranking_keys<FULL>(a.bias, logits, lane, keys);
  if constexpr (IS_GROUPED) keep_best_groups(keys, lane);
  take_best<Scores>(keys, Scores::base(lane), K, [&](int k, u32 index) {
    if (k == lane) expert = i32(index);
  });
  return expert;
}

// The expert that the caller has chosen for the lane's slot, -1 if it is none.
template <class A> KILN_DEVICE i32 fixed_expert(const A& a, i64 token, int lane, bool* is_stray) {
  index_t expert[1] = {-1};
  const index_t* row = a.unmapped_topk_idx + token * a.unmapped_topk_idx_stride0;
  if (lane < K) read_slots<true>(row + lane, expert);
  return is_within(expert[0], NUM_EXPERTS, is_stray) ? i32(expert[0]) : -1;
}

// The weight of the lane's slot; scores are added in the order of slots.
KILN_DEVICE f32 weight(f32 own, f32 factor) {
  if constexpr (RENORMALIZE) {
    f32 sum = 0.0f;
#pragma unroll
    for (int k = 0; k < K; ++k) sum = __fadd_rn(sum, __shfl_sync(WHOLE_WARP, own, k));
    own = __fdiv_rn(own, __fadd_rn(1e-20f, sum));
  }
  return __fmul_rn(own, factor);
}

KILN_DEVICE u32 remainder(u64 a, u32 b) {
  return a >> 32 ? u32(a % b) : u32(a) % b;
}

// One of an expert's physical replicas, spread over tokens and ranks.
template <class A>
KILN_DEVICE i32 physical_expert(const A& a, i64 token, i32 expert, bool* is_stray) {
  i32 count = a.logical_count[expert];
  if (count <= 0) return -1;
  u32 replica = remainder(u64(a.ep_rank) + u64(token) * 23333, u32(count));
  if (!is_within(i64(replica), a.num_physical, is_stray)) return -1;
  i32 physical = a.to_physical_map[expert * a.num_physical + replica];
  return physical < 0 ? -1 : physical;
}

template <class A> KILN_DEVICE void put(const A& a, i64 token, int lane, i32 expert, f32 weight) {
  i64 slots = K + a.num_shared_experts;
  if (lane >= slots) return;
  write_slots<true>(a.topk_idx + token * slots + lane, {index_t(expert)});
  write_slots<true>(a.topk_weights + token * slots + lane, {weight});
}

template <class A> KILN_DEVICE void put_unmapped(const A& a, i64 token, int lane, i32 expert) {
  if constexpr (HAS_UNMAPPED_TOPK_IDX) {
    if (lane >= K) return;
    write_slots<true>(a.unmapped_topk_idx + token * a.unmapped_topk_idx_stride0 + lane,
                      {index_t(expert)});
  }
}

// A bool is a byte: any but 0 is true.
KILN_DEVICE bool is_set(const bool* mask, i64 token) {
  return ptx::load_cs(reinterpret_cast<const u8*>(mask) + token) != 0;
}

template <bool FULL> KILN_DEVICE void route(const kiln_args& a, i64 token, int lane) {
  const logits_t* row = a.logits + token * NUM_EXPERTS;
  bool is_fixed = HAS_FIX_ROUTING_MASK && is_set(a.fix_routing_mask, token), is_stray = false;
  f32 logits[Scores::VALUES], own = 0.0f, factor = 1.0f;
  Softmax softmax = {};
  if (IS_SOFTMAX || !is_fixed) read_scores<FULL, Scores>(row, lane, logits);
  if constexpr (IS_SOFTMAX) softmax = softmax_of<Scores>(logits, lane);
  i32 expert = is_fixed ? fixed_expert(a, token, lane, &is_stray) : choose<FULL>(a, logits, lane);

  if (expert >= 0) {
    f32 x[1];
    read<false>(row + expert, true, x);
    own = score(x[0], softmax);
  }
  factor = weight(own, a.routed_scaling_factor);
  put_unmapped(a, token, lane, expert);
  if (lane >= K && lane < K + a.num_shared_experts) {
    expert = i32(NUM_EXPERTS) + lane - K;
    factor = 1.0f;
  }
  if constexpr (HAS_TO_PHYSICAL_MAP) {
    if (expert >= 0) expert = physical_expert(a, token, expert, &is_stray);
  }
  if (expert >= 0) {
    u32 per_rank = u32((NUM_EXPERTS + a.num_physical - 1) / a.num_ep_ranks);
    expert = ParallelRanks{per_rank, u32(a.num_tp_ranks), u32(a.tp_rank)}.local_expert(u32(expert));
  }
  put(a, token, lane, expert, factor);
  flag_stray(a.error, is_stray);
}

template <bool FULL> KILN_DEVICE void gate(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 token = i64(blockIdx.x) * WARPS + threadIdx.x / 32;
  int lane = int(threadIdx.x % 32);
  if (token >= a.num_tokens) return;
  if (HAS_MASK && !is_set(a.mask, token)) {
    put_unmapped(a, token, lane, -1);
    put(a, token, lane, -1, 0.0f);
  } else {
    route<FULL>(a, token, lane);
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    top2_sum_gate_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::gate<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    top2_sum_gate_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::gate<false>(a);
}
