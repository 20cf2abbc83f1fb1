// SPDX-License-Identifier: MIT
// topk_gate and get_fused_mapping of a few tokens, in one block. A warp takes a token at a time and leaves
// its experts in shared memory; then the block maps their slots. All rows are cleared at the beginning: the
// stores are on their way while experts are chosen, and slots are put over them behind a barrier.
//
// Shared bytes: 4 * NUM_EXPERTS * (WARPS + 2) + 2 * MAX_TOKENS * NUM_TOPK
// needs: kiln/topk.cuh kiln/mapping.cuh
namespace kiln {

// Half as many threads have twice as many registers for a row's scores.
constexpr int WARPS = NUM_EXPERTS <= 1024 ? 32 : 16, THREADS = WARPS * 32;
constexpr int EXPERTS = int(NUM_EXPERTS), K = int(NUM_TOPK);
constexpr int MAX_TOKENS = 512;  // the spec requires it
using Scores = Spread<1, EXPERTS>;
using Map = Mapping<EXPERTS, K, WARPS>;

struct GateShared {
  Map::Shared map;
  u16 experts[MAX_TOKENS * K];  // of each slot
};
static_assert(sizeof(GateShared) == 4 * NUM_EXPERTS * (WARPS + 2) + 2 * MAX_TOKENS * NUM_TOPK,
              "the spec counts so");
static_assert(NUM_EXPERTS <= 1 << 16, "experts are kept in 16 bits");

// The experts of all tokens, to global and shared memory.
template <bool FULL> KILN_DEVICE void choose_experts(const kiln_args& a, GateShared& s) {
  int lane = int(threadIdx.x % 32);
  for (i64 token = threadIdx.x / 32; token < a.num_tokens; token += WARPS) {
    topk_idx_t chosen[ceil_div(K, 32)];
    choose_best<FULL, Scores, K>(a.scores + token * NUM_EXPERTS, lane, chosen);
#pragma unroll
    for (int i = 0; i < int(ceil_div(K, 32)); ++i) {
      int k = i * 32 + lane;
      if (k >= K) continue;
      s.experts[token * K + k] = u16(chosen[i]);
      write_slots<true>(a.topk_idx + token * K + k, {chosen[i]});
    }
  }
  __syncthreads();
}

template <bool FULL> KILN_DEVICE void gate_and_map(const kiln_args& a) {
  GateShared& s = shared<GateShared>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  Map::clear_rows(a, 0, a.num_expanded_tokens, threadIdx.x, THREADS);
  choose_experts<FULL>(a, s);
  Map::Part part = Map::part_of(a.num_tokens * NUM_TOPK, 0, 1);
  u32* next_of = s.map.next[threadIdx.x / 32];
  auto expert_of = [&](i64 slot, i64 end, bool*) { return slot < end ? i32(s.experts[slot]) : -1; };
  Map::count_part(a, part, next_of, expert_of);
  Map::add_up_before<true>(a, s.map);
  Map::find_starts(a, s.map);
  Map::place_part(a, part, s.map, next_of, expert_of);
  for (int e = int(threadIdx.x); e < EXPERTS; e += THREADS) {
    u32 rows = Map::aligned(a, s.map.counts[e]);
    i64 start = s.map.starts[e];
    Map::put_expert(a, e, start, start + rows, rows);
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    gate_and_map_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::gate_and_map<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    gate_and_map_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::gate_and_map<false>(a);
}
