// SPDX-License-Identifier: MIT
// Chains whose scale block is (1, SF_COLS) with SF_COLS <= 128: the block sits in neighbouring
// lanes of one warp, so its values wait for no other warp.
//
// A flat grid of small blocks; a thread holds VALUES consecutive values of one row. Per row there
// are CHUNKS threads. Where scale factors are packed, CHUNKS is rounded up so that the four blocks
// of a word never straddle two rows or two warps.
//
// Scale factors are gathered in shared memory, so that a block writes them in whole sectors.
//
// Parameters: COLS, PARTS, VALUES, SF_ROWS, SF_COLS, SF_LAYOUT, BF16_VALUES, COUNTS, COUNTS_NONFINITE,
//             HAS_FULL, IS_TALL, TILE_THREADS, TILE_BLOCKS_PER_SM, chain_num_rows, chain_load, chain_store
// Shared bytes: 4 * TILE_THREADS + (COUNTERS ? 4 * COUNTERS * warps : 4)
// needs: kiln/rowwise.cuh
namespace kiln {

constexpr bool IS_PACKED = SF_LAYOUT == SfLayout::PACKED_UE8M0;
constexpr int LANES = SF_COLS / VALUES;                  // threads that share a scale factor
constexpr int WORD_LANES = LANES * (IS_PACKED ? 4 : 1);  // threads that write one word of them
constexpr int CHUNKS = int(align_up(COLS / VALUES, IS_PACKED ? WORD_LANES : 1));
constexpr int SF_COLUMNS = int(ceil_div(COLS / SF_COLS, IS_PACKED ? 4 : 1));
constexpr int WARPS = TILE_THREADS / 32;
constexpr int WARP_WORDS = 32 / WORD_LANES;
constexpr int COUNTERS = (COUNTS ? 3 : 0) + (COUNTS_NONFINITE ? 1 : 0);

// Where IS_TALL, for column-major scale factors, the warps of a block take consecutive rows, so that a
// column's words of these rows are written together. Else blocks follow each other along the rows, and
// every PERIOD blocks start at the same place of a row again, ROWS rows further on.
static_assert(!IS_TALL || CHUNKS % 32 == 0, "a warp stays within a row");
constexpr int PERIOD = IS_TALL ? CHUNKS / 32 : CHUNKS / common_divisor(CHUNKS, TILE_THREADS);
constexpr int ROWS = IS_TALL ? WARPS : TILE_THREADS / common_divisor(CHUNKS, TILE_THREADS);
// Row-major words of neighbouring threads lie together; those of single threads need no gathering.
constexpr bool IS_GATHERED =
    !KEEPS_SKIPPED && (IS_TALL || (SF_LAYOUT == SfLayout::ROW_MAJOR && LANES > 1));

static_assert(TILE_THREADS % 32 == 0, "whole warps");
static_assert(SF_ROWS == 1 && COLS % SF_COLS == 0, "blocks of one row");
static_assert(SF_COLS % VALUES == 0 && WORD_LANES <= 32, "a block and a word fit one warp");

struct GroupShared {
  u32 words[TILE_THREADS];
  u32 counts[COUNTERS > 0 ? WARPS * COUNTERS : 1];  // of the gate first
};

// A thread's codes, and the scale of the block that they are in.
template <class F> struct QuantizedBlock {
  Codes<F, VALUES> codes;
  Scale scale;
};

template <bool FULL> struct Group {
  static constexpr int COUNT = VALUES;
  static constexpr int SF_BLOCK_ROWS = SF_ROWS;
  static constexpr int SF_BLOCK_COLS = SF_COLS;
  static constexpr bool is_again = false;  // a row is read once

  i64 num_rows, row, offset;  // of the thread's values, if rows were contiguous
  int chunk;
  bool inside;  // of the matrix; the others take part in shuffles
  Counters<3> counts;  // of a gate
  Counters<1> nonfinite;
  bool skipped = false;  // nothing is computed for the row: it is written 0, or with KEEPS_SKIPPED not at all

  KILN_DEVICE explicit Group(i64 rows) : num_rows(rows) {
    row = i64(blockIdx.x / PERIOD) * ROWS;
    if constexpr (IS_TALL) {
      row += threadIdx.x / 32;
      chunk = int(blockIdx.x % PERIOD * 32 + threadIdx.x % 32);
    } else {
      u32 at = blockIdx.x % PERIOD * TILE_THREADS + threadIdx.x;
      row += ROWS == 1 ? 0 : at / CHUNKS;
      chunk = int(ROWS == 1 ? at : at % CHUNKS);
    }
    if constexpr (IS_TALL || CHUNKS != COLS / VALUES) {
      offset = row * COLS + i64(chunk) * VALUES;
      inside = row < num_rows && chunk < COLS / VALUES;
    } else {
      offset = (i64(blockIdx.x) * TILE_THREADS + threadIdx.x) * VALUES;
      inside = offset < num_rows * COLS;
    }
  }

  // Threads outside read the first values, which nobody uses: cheaper than a branch.
  template <class T> KILN_DEVICE void read(const T* x, i64 stride, int part, f32 (&out)[VALUES]) {
    i64 from = inside ? offset + row * (stride - COLS) + i64(part) * COLS : 0;
    kiln::read<FULL>(at(x, from), !skipped, out);
  }
  template <class T, class R> KILN_DEVICE void read(const T* x, R rows, int part, f32 (&out)[VALUES]) {
    i64 from = inside && !skipped ? rows.offset(row) : -1;
    kiln::read<FULL>(at(x, from + i64(part) * COLS + i64(chunk) * VALUES), from >= 0, out);
  }
  // Scale factors that are given, for the thread's values.
  template <class G> KILN_DEVICE void read_scales(const G& grid, int part, f32 (&out)[VALUES]) {
    constexpr int ALIGNED = PARTS == 1 ? VALUES : common_divisor(COLS, VALUES);
    read_grid<ALIGNED>(grid, inside && !skipped, row, part * COLS + chunk * VALUES, out);
  }

  KILN_DEVICE bool is_counted(int) const { return inside && !skipped; }
  KILN_DEVICE void finish_counts() {
    if constexpr (COUNTS) add_counters<WARPS>(counts, shared<GroupShared>().counts);
  }
  KILN_DEVICE void count_nonfinite(const f32 (&v)[VALUES]) { see_nonfinite(*this, v); }
  KILN_DEVICE void finish_nonfinite() {
    u32* warp_counts = shared<GroupShared>().counts + (COUNTS ? WARPS * 3 : 0);
    if constexpr (COUNTS_NONFINITE) add_counters<WARPS>(nonfinite, warp_counts);
  }

  template <bool ZERO> KILN_DEVICE void skip(bool is_skipped) {
    static_assert(ZERO != KEEPS_SKIPPED, "the planner says so");
    skipped = skipped || is_skipped;
  }

  template <class T>
  KILN_DEVICE void write_matrix(T* out, i64 stride, int part, const f32 (&v)[VALUES]) {
    if (inside && !skipped) write_values<FULL>(out + row * stride + i64(part) * COLS + i64(chunk) * VALUES, v);
  }
  template <class T> KILN_DEVICE void store_values(T* out, i64 stride, const f32 (&v)[VALUES]) {
    if (!inside || (KEEPS_SKIPPED && skipped)) return;
    f32 stored[VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; ++i) stored[i] = skipped ? 0.0f : v[i];
    write_values<FULL>(out + row * stride + i64(chunk) * VALUES, stored);
  }
  // Numbers by column, for the thread's values.
  template <class T> KILN_DEVICE void read_columns(const T* p, int part, f32 (&out)[VALUES]) {
    read_cached<FULL>(p + (inside ? part * COLS + chunk * VALUES : 0), out);
  }
  // A number by row.
  template <class T> KILN_DEVICE T row_value(const T* p, T outside) const {
    return row < num_rows ? p[row] : outside;
  }

  // Whether the thread is the one of its row that looks at the row's index.
  KILN_DEVICE bool leads_row() const { return chunk == 0 && inside && !skipped; }

  // The largest of the lanes that share a scale factor.
  KILN_DEVICE Amax share(Amax amax) {
#pragma unroll
    for (int lane = 1; lane < LANES; lane *= 2) {
      amax.value = fmaxf(amax.value, __shfl_xor_sync(0xffffffffu, amax.value, lane));
      if (format<code_t>::BITS == 4) {
        amax.has_nan |= __shfl_xor_sync(0xffffffffu, int(amax.has_nan), lane) != 0;
      }
    }
    return amax;
  }

  template <class F, SfLayout LAYOUT, bool ROUND, class M>
  KILN_DEVICE auto quantize(const f32 (&v)[VALUES], M clamp_min) {
    Amax amax = share(amax_of<F, BF16_VALUES>(v));
    QuantizedBlock<F> q;
    q.scale = make_scale<F, ROUND>(amax, clamp_min);
    scale_and_encode<F, ROUND, BF16_VALUES>(v, q.scale.inv, amax, q.codes);
    return q;
  }

  // Codes of values that are scaled already.
  template <class F> KILN_DEVICE auto encode(const f32 (&v)[VALUES], Scale scale = {}) {
    QuantizedBlock<F> q{{}, scale};
    encode_any(v, q.codes);
    return q;
  }

  // The word of packed scale factors that this thread's block is in, in every thread.
  KILN_DEVICE u32 packed_word(u32 ue8m0) {
    u32 word = inside ? ue8m0 << (u32(chunk) / LANES % 4 * 8) : 0;
#pragma unroll
    for (int lane = LANES; lane < WORD_LANES; lane *= 2) {
      word |= __shfl_xor_sync(0xffffffffu, word, lane);
    }
    return word;
  }

  template <class F, class D, class S>
  KILN_DEVICE void store(const QuantizedBlock<F>& q, D data, i64 stride, S sf, i64 ld) {
    bool is_kept = KEEPS_SKIPPED && skipped;
    u32 bits = 0;
    if constexpr (is_there<S>::VALUE) {
      bits = IS_PACKED ? packed_word(q.scale.ue8m0) : __float_as_uint(q.scale.sf);
      if (skipped) bits = 0;
    }
    if constexpr (is_there<D>::VALUE) {
      if (inside && !is_kept) {
        write<FULL>(data + packed_bytes<F>(offset + row * (stride - COLS)), zero_if(skipped, q.codes));
      }
    }
    if constexpr (is_there<S>::VALUE) store_scale(bits, is_kept, sf, ld);
  }

  template <class S> KILN_DEVICE void store_scale(u32 bits, bool is_kept, S* sf, i64 ld) {
    bool is_first = u32(chunk) % WORD_LANES == 0;
    if constexpr (!IS_GATHERED) {
      if (is_first && !is_kept) store_word(sf, row, chunk / WORD_LANES, ld, bits);
    } else {
      u32 warp = threadIdx.x / 32, word = threadIdx.x % 32 / WORD_LANES;
      u32* words = shared<GroupShared>().words;
      if (is_first) words[IS_TALL ? word * WARPS + warp : threadIdx.x / WORD_LANES] = bits;
      __syncthreads();
      if (threadIdx.x < WARPS * WARP_WORDS) {
        bits = words[threadIdx.x];
        if constexpr (IS_TALL) {
          store_word(sf, row - warp + threadIdx.x % WARPS,
                     int(blockIdx.x % PERIOD * WARP_WORDS + threadIdx.x / WARPS), ld, bits);
        } else {
          i64 at = i64(blockIdx.x) * (WARPS * WARP_WORDS) + threadIdx.x;
          if (at < num_rows * SF_COLUMNS) put_sf(sf, at, bits);
        }
      }
    }
  }

  // Rows that pad a column are written 0, but only where the distance of columns is the default.
  template <class S> KILN_DEVICE void store_word(S* sf, i64 r, int column, i64 ld, u32 bits) {
    bool is_pad = SF_LAYOUT != SfLayout::ROW_MAJOR && r >= num_rows && r < align_up(num_rows, 4) &&
                  ld == align_up(num_rows, 4);
    if (r < num_rows || is_pad) {
      store_sf<SF_LAYOUT>(sf, r, column, SF_COLUMNS, ld, is_pad ? 0 : bits);
    }
  }
};

template <bool FULL> KILN_DEVICE void group(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  Group<FULL> c(chain_num_rows(a));
  auto values = chain_load(a, c);
  c.finish_counts();
  chain_store(a, c, values);
  c.finish_nonfinite();
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS, kiln::TILE_BLOCKS_PER_SM)
    group_full(const __grid_constant__ kiln::kiln_args a) {
  if constexpr (kiln::HAS_FULL) kiln::group<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS)
    group_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::group<false>(a);
}
