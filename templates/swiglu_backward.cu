// SPDX-License-Identifier: MIT
// SwiGLU backward on quantised rows: a warp has a segment of 256 columns of one row, a thread 8 of gate
// and up each, so that nothing waits for another warp.
//
// The sum over a row, which is the gradient of its weight, is a tree over the columns of a segment, left
// in the workspace; the step `weights` adds the segments up for each slot in the order of columns.
//
// Parameters: HIDDEN, NUM_PER_CHANNELS, ROUND_SF, HAS_SWIGLU_CLAMP_VALUE, HAS_SF_CLAMP_MIN, HAS_NONFINITE_COUNT,
//             HAS_ERROR
// Launch: rows: 256 threads, 8 warps; weights: 256 threads, one a slot. Workspace: 4 bytes a segment
// needs: kiln/rowwise.cuh kiln/rows.cuh kiln/clamp.cuh kiln/counters.cuh kiln/error.cuh
namespace kiln {

constexpr int COLS = int(HIDDEN), VALUES = 8, SEGMENT = 32 * VALUES, WARPS = 8;
constexpr int SEGMENTS = int(ceil_div(COLS, SEGMENT));
constexpr int SF_COLS = int(NUM_PER_CHANNELS);
constexpr int LANES = SF_COLS / VALUES;           // threads that share a scale factor
constexpr int SF_COLUMNS = 2 * COLS / SF_COLS;    // of a row: gate, then up

static_assert(COLS % SF_COLS == 0 && SF_COLS % VALUES == 0 && LANES <= 32, "a block fits one warp");

template <bool PRESENT> KILN_DEVICE auto optional_scalar(f32 value) {
  if constexpr (PRESENT) {
    return value;
  } else {
    return none{};
  }
}

// A product with the weight of a row that has none is 0, whatever garbage the row holds.
KILN_DEVICE f32 zero_unless(bool is_there, f32 v) { return is_there || v == 0.0f ? v : 0.0f; }

struct Gradient {
  f32 act, gate, up;
};

// With s = 1 / (1 + exp(-l)): act = l * s * r by a division of its own, q = g * w * s,
// gate = q * r * (1 + l * (1 - s)), up = q * l; 0 where the input was clamped.
template <class M> KILN_DEVICE Gradient gradient_of(f32 l, f32 r, f32 weighted, M most) {
  f32 gate = at_most(l, most), up = r;
  bool is_up_clamped = false;
  if constexpr (HAS_SWIGLU_CLAMP_VALUE) {
    up = at_most(at_least(r, -most), most);
    is_up_clamped = r > most || r < -most;
  }
  f32 d = __fadd_rn(1.0f, expf(-gate));
  f32 s = __fdiv_rn(1.0f, d);
  f32 q = __fmul_rn(weighted, s);
  Gradient out;
  out.act = __fmul_rn(__fdiv_rn(gate, d), up);
  out.gate = __fmul_rn(__fmul_rn(q, up), fmaf(gate, __fsub_rn(1.0f, s), 1.0f));
  out.up = is_up_clamped ? 0.0f : __fmul_rn(q, gate);
  if (gate == -__uint_as_float(0x7f800000u)) out.act = out.gate = 0.0f;
  if (HAS_SWIGLU_CLAMP_VALUE && gate != l && !is_nan(l)) out.gate = 0.0f;
  return out;
}

// A thread's codes of one half times their scale factor.
template <bool FULL> KILN_DEVICE void read_pair(const e4m3* x, const f32* sf, f32 (&out)[VALUES]) {
  kiln::read<FULL>(x, true, out);
  f32 scale = *sf;
#pragma unroll
  for (int i = 0; i < VALUES; ++i) out[i] = __fmul_rn(out[i], scale);
}

// One half of the gradient: bf16, and e4m3 with its scale factors.
template <bool FULL>
KILN_DEVICE void store_half(const kiln_args& a, const f32 (&v)[VALUES], i64 row, int column, bool inside) {
  Amax amax = amax_of<e4m3, false>(v);
#pragma unroll
  for (int lane = 1; lane < LANES; lane *= 2) {
    amax.value = fmaxf(amax.value, __shfl_xor_sync(0xffffffffu, amax.value, lane));
  }
  if (!inside) return;
  Scale scale = make_scale<e4m3, ROUND_SF>(amax, optional_scalar<HAS_SF_CLAMP_MIN>(a.sf_clamp_min));
  Codes<e4m3, VALUES> codes;
  scale_and_encode<e4m3, ROUND_SF, false>(v, scale.inv, amax, codes);
  i64 at = row * 2 * COLS + column;
  write<FULL>(reinterpret_cast<u8*>(a.x_grad_fp8) + at, codes);
  write_values<FULL>(a.x_grad + at, v);
  if (column % SF_COLS == 0) {
    store_sf<SfLayout::ROW_MAJOR>(a.x_grad_fp8_sf, row, column / SF_COLS, SF_COLUMNS, 0,
                                  __float_as_uint(scale.sf));
  }
}

template <bool FULL> KILN_DEVICE void run_rows(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 warp = i64(blockIdx.x) * WARPS + threadIdx.x / 32;
  i64 row = divide(warp, SEGMENTS);
  int segment = int(warp - row * SEGMENTS);
  int column = segment * SEGMENT + int(threadIdx.x % 32) * VALUES;
  if (row >= a.num_expanded_tokens) return;  // a whole warp
  bool inside = column < COLS;
  i32 index = a.pos_to_token_topk[row];
  f32 l[VALUES] = {}, r[VALUES] = {}, g[VALUES] = {};
  if (inside) {
    const e4m3* x = a.x + row * 2 * COLS + column;
    const f32* sf = a.x_sf + row * SF_COLUMNS + column / SF_COLS;
    read_pair<FULL>(x, sf, l);
    read_pair<FULL>(x + COLS, sf + COLS / SF_COLS, r);
    kiln::read<FULL>(a.grad_out + row * COLS + column, true, g);
  }
  bool is_there = index >= 0 && index < a.num_tokens * a.num_topk;
  if constexpr (HAS_ERROR) flag_stray(a.error, column == 0 && index >= a.num_tokens * a.num_topk);
  f32 w = is_there ? a.weight[index] : 0.0f;
  f32 out[VALUES], products[VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    Gradient d = gradient_of(l[i], r[i], __fmul_rn(g[i], w),
                             optional_scalar<HAS_SWIGLU_CLAMP_VALUE>(a.swiglu_clamp_value));
    products[i] = inside ? __fmul_rn(g[i], d.act) : 0.0f;
    out[i] = zero_unless(is_there, __fmul_rn(d.act, w));
    l[i] = zero_unless(is_there, d.gate);
    r[i] = zero_unless(is_there, d.up);
  }
  if constexpr (HAS_NONFINITE_COUNT) {
    i32 n = 0;
#pragma unroll
    for (int i = 0; i < VALUES; ++i) n += inside ? is_nonfinite(l[i]) + is_nonfinite(r[i]) : 0;
    add_warp_counter(n, a.nonfinite_count);
  }
  store_half<FULL>(a, l, row, column, inside);
  store_half<FULL>(a, r, row, COLS + column, inside);
  if (inside) write_values<FULL>(a.out + row * COLS + column, out);
  f32 sum = warp_sum(tree_sum(products));
  if (threadIdx.x % 32 == 0) reinterpret_cast<f32*>(a.workspace)[row * SEGMENTS + segment] = sum;
}

// The gradient of a slot's weight is its row's sum.
KILN_DEVICE void run_weights(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  i64 slot = i64(blockIdx.x) * 256 + threadIdx.x;
  if (slot >= a.num_tokens * a.num_topk) return;
  i32 row = a.token_topk_to_pos[slot];
  f32 sum = 0.0f;
  if constexpr (HAS_ERROR) flag_stray(a.error, row >= a.num_expanded_tokens);
  if (row >= 0 && row < a.num_expanded_tokens) {
    const f32* sums = reinterpret_cast<const f32*>(a.workspace) + i64(row) * SEGMENTS;
    for (int i = 0; i < SEGMENTS; ++i) sum = __fadd_rn(sum, sums[i]);
  }
  a.weight_grad[slot] = sum;
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(256, 4)
    swiglu_backward_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::run_rows<kiln::COLS % 8 == 0>(a);
}

extern "C" __global__ void __launch_bounds__(256)
    swiglu_backward_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::run_rows<false>(a);
}

extern "C" __global__ void __launch_bounds__(256)
    swiglu_backward_weights(const __grid_constant__ kiln::kiln_args a) {
  kiln::run_weights(a);
}
