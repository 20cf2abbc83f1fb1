// SPDX-License-Identifier: MIT
// The experts with the highest scores, best first. A warp a token.
//
// needs: kiln/topk.cuh kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 128, WARPS = THREADS / 32, K = int(NUM_TOPK);
using Scores = Spread<1, int(NUM_EXPERTS)>;

template <bool FULL> KILN_DEVICE void gate(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 token = i64(blockIdx.x) * WARPS + threadIdx.x / 32;
  int lane = int(threadIdx.x % 32);
  if (token >= a.num_tokens) return;
  topk_idx_t chosen[ceil_div(K, 32)];
  choose_best<FULL, Scores, K>(a.scores + token * NUM_EXPERTS, lane, chosen);
#pragma unroll
  for (int i = 0; i < int(ceil_div(K, 32)); ++i) {
    int k = i * 32 + lane;
    if (k < K) write_slots<true>(a.topk_idx + token * K + k, {chosen[i]});
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    topk_gate_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::gate<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    topk_gate_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::gate<false>(a);
}
