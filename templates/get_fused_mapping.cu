// SPDX-License-Identifier: MIT
// The expert-major layout: which row each slot gets. Slots are cut into one part a block. The step
// `count` writes each block's counts of every expert to the workspace; the step `place` adds up what lies
// before its part, and ranks its own slots in order. A row thus follows from counts alone: the same for
// any number of blocks. Few slots need no `count`: each block counts all of them, the first one places
// them, and the others only help to clear rows.
//
// In a part each warp has consecutive slots, of which it takes 32 at a time: lanes with the same expert
// find each other, and take rows in the order of lanes.
//
// Shared bytes: 4 * NUM_EXPERTS * (WARPS + 2); workspace: 4 * NUM_EXPERTS for each block
// needs: kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int EXPERTS = int(NUM_EXPERTS);

struct MappingShared {
  u32 next[WARPS][EXPERTS];  // a warp's slots of an expert; then its next one's rank
  u32 counts[EXPERTS];       // of all blocks
  u32 starts[EXPERTS];       // the first row of each expert
};
static_assert(sizeof(MappingShared) == 4 * NUM_EXPERTS * (WARPS + 2), "the spec counts so");

// The slots of a warp, if `blocks` share all.
struct Part {
  i64 first, end;
};

KILN_DEVICE Part part_of(i64 num_slots, u32 block, u32 blocks) {
  i64 each = align_up(ceil_div(num_slots, i64(blocks) * WARPS), 32);
  i64 first = (i64(block) * WARPS + threadIdx.x / 32) * each;
  return {first, min(first + each, num_slots)};
}

// The expert of a slot, -1 if it has none.
KILN_DEVICE i32 expert_at(const topk_idx_t* topk_idx, i64 slot, i64 end, bool* is_stray) {
  topk_idx_t expert[1] = {-1};
  if (slot < end) read_slots<true>(topk_idx + slot, expert);
  return is_within(expert[0], NUM_EXPERTS, is_stray) ? i32(expert[0]) : -1;
}

// Counts the warp's slots of each expert. Sums of integers: the order of lanes does not matter.
KILN_DEVICE void count_part(const kiln_args& a, const Part& part, u32* counts) {
  int lane = int(threadIdx.x % 32);
  for (int e = lane; e < EXPERTS; e += 32) counts[e] = 0;
  __syncwarp();
  bool is_stray = false;
  for (i64 at = part.first; at < part.end; at += 32) {
    i32 expert = expert_at(a.topk_idx, at + lane, part.end, &is_stray);
    if (expert >= 0) atomicAdd(&counts[expert], 1u);
  }
  flag_stray(a.error, is_stray);
  __syncthreads();
}

// The block's row of counts in the workspace.
KILN_DEVICE u32* block_counts(const kiln_args& a, u32 block) {
  return reinterpret_cast<u32*>(a.workspace) + i64(block) * EXPERTS;
}

KILN_DEVICE void count(const kiln_args& a) {
  MappingShared& s = shared<MappingShared>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  count_part(a, part_of(a.num_tokens * NUM_TOPK, blockIdx.x, gridDim.x),
             s.next[threadIdx.x / 32]);
  for (int e = int(threadIdx.x); e < EXPERTS; e += THREADS) {
    u32 sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += s.next[w][e];
    ptx::store_cs(block_counts(a, blockIdx.x) + e, sum);
  }
}

// Turns the warps' counts into what lies before each warp, in its block and in the blocks before it, and
// fills in the counts of all. ALONE: this block has counted all.
template <bool ALONE> KILN_DEVICE void add_up_before(const kiln_args& a, MappingShared& s) {
  for (int e = int(threadIdx.x); e < EXPERTS; e += THREADS) {
    u32 before = 0, all = 0;
    if constexpr (!ALONE) {
#pragma unroll 8
      for (u32 b = 0; b < gridDim.x; ++b) {
        u32 count = ptx::load_cs(block_counts(a, b) + e);
        before += b < blockIdx.x ? count : 0;
        all += count;
      }
    }
    for (int w = 0; w < WARPS; ++w) {
      u32 own = s.next[w][e];
      s.next[w][e] = before;
      before += own;
    }
    s.counts[e] = ALONE ? before : all;
  }
  __syncthreads();
}

KILN_DEVICE u32 aligned(const kiln_args& a, u32 count) {
  u32 alignment = u32(a.alignment);
  return (count + alignment - 1) / alignment * alignment;
}

// The first warp finds where each expert begins, 32 of them at a time.
KILN_DEVICE void find_starts(const kiln_args& a, MappingShared& s) {
  u32 end = 0;
  int lane = int(threadIdx.x);
  for (int first = 0; lane < 32 && first < EXPERTS; first += 32) {
    int e = first + lane;
    u32 rows = e < EXPERTS ? aligned(a, s.counts[e]) : 0, through = rows;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      u32 other = __shfl_up_sync(0xffffffffu, through, by);
      if (lane >= by) through += other;
    }
    if (e < EXPERTS) s.starts[e] = end + through - rows;
    end += __shfl_sync(0xffffffffu, through, 31);
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) flag_stray(a.error, i64(end) > a.num_expanded_tokens);
  __syncthreads();
}

KILN_DEVICE void clear_rows(const kiln_args& a, i64 first, i64 end, i64 at, i64 step) {
  for (i64 row = first + at; row < min(end, a.num_expanded_tokens); row += step) {
    a.pos_to_expert[row] = -1;
    a.pos_to_token[row] = -1;
    a.pos_to_token_topk[row] = -1;
  }
}

// What is told of each expert, and rows without a slot: those behind an expert's slots by one block, all
// behind the last expert by all blocks.
KILN_DEVICE void tell_experts(const kiln_args& a, const MappingShared& s) {
  for (int e = int(blockIdx.x); e < EXPERTS; e += int(gridDim.x)) {
    u32 rows = aligned(a, s.counts[e]);
    i64 start = s.starts[e], end = start + rows;
    clear_rows(a, start + s.counts[e], end, threadIdx.x, THREADS);
    if (threadIdx.x == 0) {
      a.expert_start[e] = i32(start);
      a.expert_end[e] = i32(end);
      a.num_tokens_per_expert[e] = i32(rows);
    }
  }
  i64 end = i64(s.starts[EXPERTS - 1]) + aligned(a, s.counts[EXPERTS - 1]);
  clear_rows(a, end, a.num_expanded_tokens, i64(blockIdx.x) * THREADS + threadIdx.x,
             i64(gridDim.x) * THREADS);
}

// A slot gets its row, if there is such a row.
KILN_DEVICE void put_slot(const kiln_args& a, i64 slot, i32 expert, i64 row) {
  bool is_there = expert >= 0 && row < a.num_expanded_tokens;
  a.token_topk_to_pos[slot] = is_there ? i32(row) : -1;
  if (!is_there) return;
  a.pos_to_expert[row] = expert;
  a.pos_to_token[row] = i32(u32(slot) / u32(NUM_TOPK));
  a.pos_to_token_topk[row] = i32(slot);
}

// Ranks the warp's slots, in order.
KILN_DEVICE void place_part(const kiln_args& a, const Part& part, const MappingShared& s,
                            u32* next_of) {
  int lane = int(threadIdx.x % 32);
  bool is_stray = false;
  for (i64 at = part.first; at < part.end; at += 32) {
    i64 slot = at + lane;
    i32 expert = expert_at(a.topk_idx, slot, part.end, &is_stray);
    u32 peers = __match_any_sync(0xffffffffu, u32(expert));
    u32 rank = u32(__popc(peers & ((1u << lane) - 1)));
    u32 next = expert >= 0 ? next_of[expert] : 0;
    i64 row = expert >= 0 ? i64(s.starts[expert]) + next + rank : -1;
    __syncwarp();
    if (expert >= 0 && rank == 0) next_of[expert] = next + u32(__popc(peers));
    __syncwarp();
    if (slot < part.end) put_slot(a, slot, expert, row);
  }
}

template <bool ALONE> KILN_DEVICE void place(const kiln_args& a) {
  MappingShared& s = shared<MappingShared>();
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 num_slots = a.num_tokens * NUM_TOPK;
  Part part = ALONE ? part_of(num_slots, 0, 1) : part_of(num_slots, blockIdx.x, gridDim.x);
  u32* next_of = s.next[threadIdx.x / 32];
  count_part(a, part, next_of);
  add_up_before<ALONE>(a, s);
  find_starts(a, s);
  if (!ALONE || blockIdx.x == 0) place_part(a, part, s, next_of);
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
