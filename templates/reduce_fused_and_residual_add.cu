// SPDX-License-Identifier: MIT
// A token's rows of the expert-major layout, weighted and added up, and a residual added to the sum:
// kiln/reduce.cuh.
//
// needs: kiln/reduce.cuh
namespace kiln {

using Sums =
    Reduction<x_t, out_t, HIDDEN, int(NUM_TOPK), HAS_TOPK_WEIGHTS, HAS_X_SF, HAS_SF, true>;

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::Sums::THREADS)
    reduce_and_add_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::Sums::run<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::Sums::THREADS)
    reduce_and_add_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::Sums::run<false>(a);
}
