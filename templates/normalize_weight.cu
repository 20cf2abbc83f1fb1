// SPDX-License-Identifier: MIT
// Weights of a token's slots over their sum. A thread a token: its slots are one or two vectors.
//
// needs: kiln/slots.cuh
namespace kiln {

constexpr int THREADS = 128, K = int(NUM_TOPK);

template <bool FULL> KILN_DEVICE void normalize(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 token = i64(blockIdx.x) * THREADS + threadIdx.x;
  if (token >= a.num_tokens) return;
  f32 w[K], sum = 0.0f;
  read_slots<FULL>(a.topk_weights + token * K, w);
#pragma unroll
  for (int k = 0; k < K; ++k) sum = __fadd_rn(sum, w[k]);
  sum = __fadd_rn(1e-20f, sum);
#pragma unroll
  for (int k = 0; k < K; ++k) w[k] = __fdiv_rn(w[k], sum);
  write_slots<FULL>(a.normalized_weights + token * K, w);
  ptx::store_cs(reinterpret_cast<u32*>(a.denominator) + token, __float_as_uint(sum));
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    normalize_weight_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::normalize<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    normalize_weight_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::normalize<false>(a);
}
