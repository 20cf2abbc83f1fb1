// SPDX-License-Identifier: MIT
// The expert-major layout: which row each slot gets. Slots are cut into one part a block. The step
// `count` writes each block's counts of every expert to the workspace; the step `place` adds up what lies
// before its part, and ranks its own slots in order: the same for any number of blocks. Few slots need no
// `count`: each block counts all of them, the first one places them, and the others only help to clear
// rows.
//
// Shared bytes: 4 * NUM_EXPERTS * (WARPS + 2); workspace: 4 * NUM_EXPERTS for each block
// needs: kiln/mapping.cuh
namespace kiln {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int EXPERTS = int(NUM_EXPERTS);
using Map = Mapping<EXPERTS, int(NUM_TOPK), WARPS>;
static_assert(sizeof(Map::Shared) == 4 * NUM_EXPERTS * (WARPS + 2), "the spec counts so");

// The experts that are given, for Map's functions.
struct GivenExperts {
  const kiln_args& a;
  KILN_DEVICE i32 operator()(i64 slot, i64 end, bool* is_stray) const {
    topk_idx_t expert[1] = {-1};
    if (slot < end) read_slots<true>(a.topk_idx + slot, expert);
    return is_within(expert[0], NUM_EXPERTS, is_stray) ? i32(expert[0]) : -1;
  }
};

KILN_DEVICE void count(const kiln_args& a) {
  Map::Shared& s = shared<Map::Shared>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  Map::count_part(a, Map::part_of(a.num_tokens * NUM_TOPK, blockIdx.x, gridDim.x),
                  s.next[threadIdx.x / 32], GivenExperts{a});
  for (int e = int(threadIdx.x); e < EXPERTS; e += THREADS) {
    u32 sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += s.next[w][e];
    ptx::store_cs(Map::block_counts(a, blockIdx.x) + e, sum);
  }
}

// What is told of each expert, and rows without a slot: those behind an expert's slots by one block, all
// behind the last expert by all blocks.
KILN_DEVICE void tell_experts(const kiln_args& a, const Map::Shared& s) {
  for (int e = int(blockIdx.x); e < EXPERTS; e += int(gridDim.x)) {
    u32 rows = Map::aligned(a, s.counts[e]);
    i64 start = s.starts[e], end = start + rows;
    Map::clear_rows(a, start + s.counts[e], end, threadIdx.x, THREADS);
    if (threadIdx.x == 0) Map::put_expert(a, e, start, end, rows);
  }
  i64 end = i64(s.starts[EXPERTS - 1]) + Map::aligned(a, s.counts[EXPERTS - 1]);
  Map::clear_rows(a, end, a.num_expanded_tokens, i64(blockIdx.x) * THREADS + threadIdx.x,
                  i64(gridDim.x) * THREADS);
}

template <bool ALONE> KILN_DEVICE void place(const kiln_args& a) {
  Map::Shared& s = shared<Map::Shared>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 num_slots = a.num_tokens * NUM_TOPK;
  Map::Part part =
      ALONE ? Map::part_of(num_slots, 0, 1) : Map::part_of(num_slots, blockIdx.x, gridDim.x);
  u32* next_of = s.next[threadIdx.x / 32];
  GivenExperts expert_of{a};
  Map::count_part(a, part, next_of, expert_of);
  Map::add_up_before<ALONE>(a, s);
  Map::find_starts(a, s);
  if (!ALONE || blockIdx.x == 0) Map::place_part(a, part, s, next_of, expert_of);
  tell_experts(a, s);
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    mapping_count(const __grid_constant__ kiln::kiln_args a) {
  kiln::count(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    mapping_place(const __grid_constant__ kiln::kiln_args a) {
  kiln::place<false>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    mapping_place_few(const __grid_constant__ kiln::kiln_args a) {
  kiln::place<true>(a);
}
