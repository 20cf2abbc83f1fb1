// SPDX-License-Identifier: MIT
// The expert-major layout: which row each slot gets. In a part of the slots each warp has consecutive
// ones, of which it takes 32 at a time: lanes with the same expert find each other, and take rows in the
// order of lanes. A row follows from counts alone.
#pragma once
#include "kiln/slots.cuh"

namespace kiln {

// EXPERTS experts, K slots a token, WARPS warps of a block. `A` is an operator's kiln_args; expert_of(slot,
// end, &is_stray) is the expert of a slot before `end`, -1 where there is none.
template <int EXPERTS, int K, int WARPS> struct Mapping {
  static constexpr int THREADS = WARPS * 32;

  struct Shared {
    u32 next[WARPS][EXPERTS];  // a warp's slots of an expert; then its next one's rank
    u32 counts[EXPERTS];       // of all blocks
    u32 starts[EXPERTS];       // the first row of each expert
  };

  // The slots of a warp, if `blocks` share all.
  struct Part {
    i64 first, end;
  };

  KILN_DEVICE static Part part_of(i64 num_slots, u32 block, u32 blocks) {
    i64 each = align_up(ceil_div(num_slots, i64(blocks) * WARPS), 32);
    i64 first = (i64(block) * WARPS + threadIdx.x / 32) * each;
    return {first, min(first + each, num_slots)};
  }

  // Counts the warp's slots of each expert. Sums of integers: the order of lanes does not matter.
  template <class A, class F>
  KILN_DEVICE static void count_part(const A& a, const Part& part, u32* counts, F expert_of) {
    int lane = int(threadIdx.x % 32);
    for (int e = lane; e < EXPERTS; e += 32) counts[e] = 0;
    __syncwarp();
    bool is_stray = false;
    for (i64 at = part.first; at < part.end; at += 32) {
      i32 expert = expert_of(at + lane, part.end, &is_stray);
      if (expert >= 0) atomicAdd(&counts[expert], 1u);
    }
    flag_stray(a.error, is_stray);
    __syncthreads();
  }

  // The block's row of counts in the workspace.
  template <class A> KILN_DEVICE static u32* block_counts(const A& a, u32 block) {
    return reinterpret_cast<u32*>(a.workspace) + i64(block) * EXPERTS;
  }

  // Turns the warps' counts into what lies before each warp, in its block and in the blocks before it,
  // and fills in the counts of all. ALONE: this block has counted all.
  template <bool ALONE, class A> KILN_DEVICE static void add_up_before(const A& a, Shared& s) {
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

  template <class A> KILN_DEVICE static u32 aligned(const A& a, u32 count) {
    u32 alignment = u32(a.alignment);
    return (count + alignment - 1) / alignment * alignment;
  }

  // The first warp finds where each expert begins, 32 of them at a time.
  template <class A> KILN_DEVICE static void find_starts(const A& a, Shared& s) {
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
    if (threadIdx.x == 0 && blockIdx.x == 0) {
      flag_stray(a.error, i64(end) > a.num_expanded_tokens);
    }
    __syncthreads();
  }

  template <class A>
  KILN_DEVICE static void clear_rows(const A& a, i64 first, i64 end, i64 at, i64 step) {
    for (i64 row = first + at; row < min(end, a.num_expanded_tokens); row += step) {
      a.pos_to_expert[row] = -1;
      a.pos_to_token[row] = -1;
      a.pos_to_token_topk[row] = -1;
    }
  }

  template <class A> KILN_DEVICE static void put_expert(const A& a, int e, i64 start, i64 end, u32 rows) {
    a.expert_start[e] = i32(start);
    a.expert_end[e] = i32(end);
    a.num_tokens_per_expert[e] = i32(rows);
  }

  // A slot gets its row, if there is such a row.
  template <class A> KILN_DEVICE static void put_slot(const A& a, i64 slot, i32 expert, i64 row) {
    bool is_there = expert >= 0 && row < a.num_expanded_tokens;
    a.token_topk_to_pos[slot] = is_there ? i32(row) : -1;
    if (!is_there) return;
    a.pos_to_expert[row] = expert;
    a.pos_to_token[row] = i32(u32(slot) / u32(K));
    a.pos_to_token_topk[row] = i32(slot);
  }

  // Ranks the warp's slots, in order.
  template <class A, class F>
  KILN_DEVICE static void place_part(const A& a, const Part& part, const Shared& s, u32* next_of,
                                     F expert_of) {
    int lane = int(threadIdx.x % 32);
    bool is_stray = false;
    for (i64 at = part.first; at < part.end; at += 32) {
      i64 slot = at + lane;
      i32 expert = expert_of(slot, part.end, &is_stray);
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
};

}  // namespace kiln
