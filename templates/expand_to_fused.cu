// SPDX-License-Identifier: MIT
// Rows of tokens to their rows of the expert-major layout; rows without a token become zeros. The first
// blocks look for those, 32 rows each; the others copy, a thread 16 bytes.
//
// needs: kiln/expand.cuh
namespace kiln {

constexpr int THREADS = 256, K = int(NUM_TOPK);

template <bool FULL> KILN_DEVICE void expand(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 block = blockIdx.x, clearing = ceil_div(a.num_expanded_tokens, 32);
  if (block < clearing) {
    each_empty_row(a.pos_to_expert, block * 32, a.num_expanded_tokens, [&](i64 row) {
      clear_row<FULL, HIDDEN, THREADS>(a.expanded_x + row * HIDDEN);
    });
  } else {
    expand_piece<FULL, HIDDEN, K>(a, a.x, a.x_stride0, a.expanded_x,
                                  (block - clearing) * THREADS + threadIdx.x);
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    expand_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::expand<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    expand_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::expand<false>(a);
}
