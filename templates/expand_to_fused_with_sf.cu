// SPDX-License-Identifier: MIT
// expand_to_fused for quantised rows: their scale factors move with them, from any layout to the one of
// the flags. Three kinds of blocks: those that clear rows without a token, 32 each, those that copy rows,
// a thread 16 bytes, and those that copy scale factors, a thread a word.
//
// needs: kiln/expand.cuh
namespace kiln {

constexpr int THREADS = 256, K = int(NUM_TOPK);
constexpr i64 SCALES = ceil_div(HIDDEN, NUM_PER_CHANNELS);
constexpr i64 WORDS = USE_PACKED_UE8M0 ? ceil_div(SCALES, 4) : SCALES;  // of a row

template <class A> KILN_DEVICE u32* scale_at(const A& a, i64 row, i64 word) {
  u32* all = reinterpret_cast<u32*>(a.expanded_x_sf);
  if constexpr (USE_TMA_ALIGNED_COL_MAJOR_SF) {
    return all + word * a.expanded_x_sf_ld + row;
  } else {
    return all + row * WORDS + word;
  }
}

// Scale factors of rows without a token, and with the default distance of columns what fills these up.
template <class A> KILN_DEVICE void clear_padding(const A& a, i64 first) {
  if constexpr (USE_TMA_ALIGNED_COL_MAJOR_SF) {
    i64 end = align_up(a.num_expanded_tokens, 4);
    if (a.expanded_x_sf_ld != end) return;
    for (i64 row = max(first, a.num_expanded_tokens); row < min(first + 32, end); ++row) {
      for (i64 i = threadIdx.x; i < WORDS; i += THREADS) ptx::store_cs(scale_at(a, row, i), 0u);
    }
  }
}

template <bool FULL> KILN_DEVICE void expand_scale(const kiln_args& a, i64 at) {
  i64 token = at / WORDS, word = at % WORDS;
  if (token >= a.num_tokens) return;
  const u32* from = reinterpret_cast<const u32*>(a.x_sf);
  u32 scale = ptx::load_cs(from + token * a.x_sf_stride0 + word * a.x_sf_stride1);
  if (USE_PACKED_UE8M0 && SCALES % 4 && word == WORDS - 1) scale &= (1u << SCALES % 4 * 8) - 1;
  bool is_stray = false;
  each_position<FULL, K>(a.token_topk_to_pos, token, a.num_expanded_tokens, &is_stray,
                         [&](i64 row) { ptx::store_cs(scale_at(a, row, word), scale); });
}

template <bool FULL> KILN_DEVICE void expand(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 block = blockIdx.x, clearing = ceil_div(a.num_expanded_tokens, 32);
  if (block < clearing) {
    each_empty_row(a.pos_to_expert, block * 32, a.num_expanded_tokens, [&](i64 row) {
      clear_row<FULL, HIDDEN, THREADS>(a.expanded_x + row * HIDDEN);
      for (i64 i = threadIdx.x; i < WORDS; i += THREADS) ptx::store_cs(scale_at(a, row, i), 0u);
    });
    clear_padding(a, block * 32);
    return;
  }
  block -= clearing;
  i64 copying = ceil_div(a.num_tokens * Piece<HIDDEN, x_t>::IN_ROW, THREADS);
  if (block < copying) {
    expand_piece<FULL, HIDDEN, K>(a, a.x, a.x_stride0, a.expanded_x,
                                  block * THREADS + threadIdx.x);
  } else {
    expand_scale<FULL>(a, (block - copying) * THREADS + threadIdx.x);
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    expand_with_sf_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::expand<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    expand_with_sf_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::expand<false>(a);
}
