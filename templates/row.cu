// SPDX-License-Identifier: MIT
// Chains whose scale block is a whole row or any part that divides it, or that need a row's sum: one block
// of threads a row, which waits in registers.
//
// A thread holds VECTORS vectors of VALUES values, TILE_THREADS vectors apart, so that accesses
// coalesce. A row too long for registers waits in shared memory, or is read again (ROW_HELD tells).
// Where the scale block is only a part of the row, it lies in neighbouring lanes of one warp, if that comes
// out even. Else it is loose: it begins anywhere among the vectors, and its amax comes together in shared
// memory, as an integer maximum of the bits, which no order of threads changes.
//
// Parameters: COLS, PARTS, VALUES, SF_ROWS, SF_COLS, SF_LAYOUT, KEEPS_ZERO, KEEPS_SKIPPED, COUNTS,
//             COUNTS_NONFINITE, COMPUTES_SF, IS_STAGED, HAS_ROW_STAGE, ROW_HELD, HAS_FULL, TILE_THREADS,
//             TILE_BLOCKS_PER_SM, code_t, chain_num_rows, chain_load, chain_row (where HAS_ROW_STAGE), chain_store
// Shared bytes: (IS_LOOSE ? 8 * blocks of the row, up to whole 32 : 256) + (IS_STAGED ? 12 * TILE_THREADS : 16)
//               + (HAS_COUNTERS ? 16 * warps : 16)
//               + (HAS_ROW_STAGE ? 4 a segment, up to whole 16 : 16) + (ROW_HELD SHARED ? 4 * COLS : 16)
// needs: kiln/rowwise.cuh
namespace kiln {

constexpr int WARPS = TILE_THREADS / 32;
constexpr int ROW_VECTORS = COLS / VALUES;
constexpr int VECTORS = int(ceil_div(ROW_VECTORS, TILE_THREADS));
constexpr bool TELLS_NAN = format<code_t>::BITS == 4;
constexpr int HELD = ROW_HELD == RowHeld::REGISTERS ? VECTORS : 1;  // vectors in registers at a time
constexpr int SEGMENTS = int(ceil_div(ROW_VECTORS, 32));  // what a warp sums up at a time

constexpr bool HAS_COUNTERS = COUNTS || COUNTS_NONFINITE;

constexpr bool IS_PACKED = SF_LAYOUT == SfLayout::PACKED_UE8M0;
constexpr bool IS_WHOLE = SF_COLS == COLS;  // the scale block is the row
constexpr int LANES = IS_WHOLE ? 32 : SF_COLS / VALUES;  // threads that share a scale factor
constexpr int WORD_LANES = LANES * (IS_PACKED && !IS_WHOLE ? 4 : 1);  // and that write one word of them
constexpr bool IS_LOOSE = !IS_WHOLE && ((LANES & (LANES - 1)) != 0 || WORD_LANES > 32);
constexpr bool NEEDS_AMAX = (IS_WHOLE || IS_LOOSE) && COMPUTES_SF;
constexpr int BLOCKS = COLS / SF_COLS;  // of the row
constexpr int MAXIMA = IS_LOOSE ? int(align_up(BLOCKS, 4)) : 32;
constexpr int SCALES = IS_WHOLE ? 1 : HELD;                           // of a thread's vectors
constexpr int SF_COLUMNS = int(ceil_div(COLS / SF_COLS, IS_PACKED ? 4 : 1));

static_assert(TILE_THREADS % 32 == 0 && TILE_THREADS <= 1024, "whole warps");
static_assert(SF_ROWS == 1 && COLS % SF_COLS == 0, "blocks of one row");
static_assert(IS_WHOLE || SF_COLS % VALUES == 0, "vectors do not straddle blocks");
static_assert(COLS % VALUES == 0, "vectors do not straddle rows");
static_assert(!IS_STAGED || VALUES == 8, "a staged vector is three words");

struct RowShared {
  f32 amax[MAXIMA];  // of each warp, or of each loose block
  u32 has_nan[MAXIMA];
  // e5m6 takes 12 bytes a vector. Through shared memory, a warp stores whole 16-byte pieces.
  alignas(16) u32 stage[IS_STAGED ? TILE_THREADS * 3 : 4];
  alignas(16) u32 counts[HAS_COUNTERS ? WARPS * 4 : 4];  // three a warp of the gate, then one
  alignas(16) f32 sums[HAS_ROW_STAGE ? align_up(SEGMENTS, 4) : 4];
  alignas(16) f32 row[ROW_HELD == RowHeld::SHARED ? align_up(COLS, 4) : 4];
};

static_assert(sizeof(RowShared) ==
                  8 * MAXIMA + (IS_STAGED ? 12 * TILE_THREADS : 16) + (HAS_COUNTERS ? 16 * WARPS : 16) +
                      (HAS_ROW_STAGE ? align_up(SEGMENTS, 4) * 4 : 16) +
                      (ROW_HELD == RowHeld::SHARED ? align_up(COLS, 4) * 4 : 16),
              "the planner counts so");

// The codes of the vectors that a thread holds, and the row's scale or that of each.
template <class F> struct QuantizedRow {
  Codes<F, VALUES> codes[HELD];
  Scale scale[SCALES];
};

template <bool FULL> struct Row {
  static constexpr int COUNT = HELD * VALUES;
  static constexpr int SF_BLOCK_ROWS = SF_ROWS;
  static constexpr int SF_BLOCK_COLS = SF_COLS;

  i64 num_rows, row;
  int first;  // of the vectors held by the block
  bool is_again = false;  // the row is read once more
  f32 mean = 0.0f;        // of its squares
  Amax amax;              // of the row
  Counters<3> counts;  // of a gate
  Counters<1> nonfinite;
  bool skipped = false;  // nothing is computed for the row: it is written 0, or with KEEPS_SKIPPED not at all
  RowShared& s;

  KILN_DEVICE explicit Row(i64 rows)
      : num_rows(rows), row(blockIdx.x), first(0), amax{0.0f, false, true}, s(shared<RowShared>()) {}

  KILN_DEVICE int vector(int held) const { return first + held * TILE_THREADS + int(threadIdx.x); }
  // Only column-major scale factors have blocks beyond the last row.
  KILN_DEVICE bool is_row() const { return SF_LAYOUT == SfLayout::ROW_MAJOR || row < num_rows; }
  KILN_DEVICE bool is_inside(int held) const {
    return is_row() && (ROW_VECTORS % TILE_THREADS == 0 || vector(held) < ROW_VECTORS);
  }

  template <class T> KILN_DEVICE void read(const T* x, i64 stride, int part, f32 (&out)[COUNT]) {
    read_row(at(x, row * stride), !skipped, part, out);
  }
  template <class T, class R> KILN_DEVICE void read(const T* x, R rows, int part, f32 (&out)[COUNT]) {
    i64 from = is_row() && !skipped ? rows.offset(row) : -1;
    read_row(at(x, from), from >= 0, part, out);
  }
  template <class T>
  KILN_DEVICE void read_row(const T* x, bool is_there, int part, f32 (&out)[COUNT]) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 v[VALUES];
      kiln::read<FULL>(at(x, i64(part) * COLS + i64(vector(h)) * VALUES), is_there && is_inside(h), v);
#pragma unroll
      for (int i = 0; i < VALUES; ++i) out[h * VALUES + i] = v[i];
    }
  }

  // Scale factors that are given, for the thread's values.
  template <class G> KILN_DEVICE void read_scales(const G& grid, int part, f32 (&out)[COUNT]) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 v[VALUES];
      read_grid<common_divisor(COLS, VALUES)>(grid, !skipped && is_inside(h), row,
                                              part * COLS + vector(h) * VALUES, v);
#pragma unroll
      for (int i = 0; i < VALUES; ++i) out[h * VALUES + i] = v[i];
    }
  }

  KILN_DEVICE bool is_counted(int i) const { return !skipped && is_inside(i / VALUES); }
  KILN_DEVICE void finish_counts() {
    if constexpr (COUNTS) add_counters<WARPS>(counts, s.counts);
  }
  // Each value is stored once, however often it is read.
  KILN_DEVICE void count_nonfinite(const f32 (&v)[COUNT]) { see_nonfinite(*this, v); }
  KILN_DEVICE void finish_nonfinite() {
    if constexpr (COUNTS_NONFINITE) add_counters<WARPS>(nonfinite, s.counts + WARPS * 3);
  }

  template <bool ZERO> KILN_DEVICE void skip(bool is_skipped) {
    static_assert(ZERO != KEEPS_SKIPPED, "the planner says so");
    skipped = skipped || is_skipped;
  }

  template <class T>
  KILN_DEVICE void write_matrix(T* out, i64 stride, int part, const f32 (&v)[COUNT]) {
    if (skipped) return;
    out += row * stride + i64(part) * COLS;
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 vector_values[VALUES];
#pragma unroll
      for (int i = 0; i < VALUES; ++i) vector_values[i] = v[h * VALUES + i];
      if (is_inside(h)) write_values<FULL>(out + i64(vector(h)) * VALUES, vector_values);
    }
  }

  template <class T> KILN_DEVICE void store_values(T* out, i64 stride, const f32 (&v)[COUNT]) {
    if (KEEPS_SKIPPED && skipped) return;
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 part[VALUES];
#pragma unroll
      for (int i = 0; i < VALUES; ++i) part[i] = skipped ? 0.0f : v[h * VALUES + i];
      if (is_inside(h)) write_values<FULL>(out + row * stride + i64(vector(h)) * VALUES, part);
    }
  }

  // A row that waits in shared memory: each thread finds there what it put.
  KILN_DEVICE void put(const f32 (&v)[COUNT]) {
#pragma unroll
    for (int i = 0; i < VALUES; ++i) {
      if (is_inside(0)) s.row[vector(0) * VALUES + i] = v[i];
    }
  }
  KILN_DEVICE void get(f32 (&v)[COUNT]) const {
#pragma unroll
    for (int i = 0; i < VALUES; ++i) v[i] = is_inside(0) ? s.row[vector(0) * VALUES + i] : 0.0f;
  }

  // The sums of squares of the held vectors' segments.
  KILN_DEVICE void square(const f32 (&v)[COUNT]) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 squares[VALUES];
#pragma unroll
      for (int i = 0; i < VALUES; ++i) {
        f32 x = is_inside(h) ? v[h * VALUES + i] : 0.0f;
        squares[i] = __fmul_rn(x, x);
      }
      f32 sum = warp_sum(tree_sum(squares));
      if (threadIdx.x % 32 == 0 && vector(h) < ROW_VECTORS) s.sums[vector(h) / 32] = sum;
    }
  }

  // Every thread's mean becomes the row's.
  KILN_DEVICE void reduce_squares() {
    constexpr int PER_LANE = power_from(int(ceil_div(SEGMENTS, 32)));
    f32 sums[PER_LANE];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
      int segment = int(threadIdx.x % 32) * PER_LANE + i;
      sums[i] = segment < SEGMENTS ? s.sums[segment] : 0.0f;
    }
    mean = __fdiv_rn(warp_sum(tree_sum(sums)), f32(COLS));
  }
  KILN_DEVICE f32 mean_of_squares() const { return mean; }

  // Numbers by column, for the thread's values.
  template <class T> KILN_DEVICE void read_columns(const T* p, int part, f32 (&out)[COUNT]) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 v[VALUES] = {};
      if (is_inside(h)) read_cached<FULL>(p + part * COLS + vector(h) * VALUES, v);
#pragma unroll
      for (int i = 0; i < VALUES; ++i) out[h * VALUES + i] = v[i];
    }
  }
  // A number by row.
  template <class T> KILN_DEVICE T row_value(const T* p, T outside) const {
    return is_row() ? p[row] : outside;
  }
  // Whether the thread is the one of its row that looks at the row's index.
  KILN_DEVICE bool leads_row() const { return threadIdx.x == 0 && first == 0 && is_row() && !skipped; }

  // What is outside the row takes no part in its amax: it is 0, unless a stage made it something else.
  KILN_DEVICE void see(const f32 (&v)[COUNT]) {
    if constexpr (IS_LOOSE) {
      see_blocks(v);
    } else if constexpr (KEEPS_ZERO) {
      see(amax_of<code_t, BF16_VALUES>(v));
    } else {
#pragma unroll
      for (int h = 0; h < HELD; ++h) {
        f32 part[VALUES];
#pragma unroll
        for (int i = 0; i < VALUES; ++i) part[i] = is_inside(h) ? v[h * VALUES + i] : 0.0f;
        see(amax_of<code_t, BF16_VALUES>(part));
      }
    }
  }

  KILN_DEVICE void see(Amax seen) {
    amax.value = fmaxf(amax.value, seen.value);
    amax.has_nan |= seen.has_nan;
    amax.is_ordinary &= seen.is_ordinary;
  }

  KILN_DEVICE void clear_blocks() {
    for (int i = int(threadIdx.x); i < BLOCKS; i += TILE_THREADS) {
      s.amax[i] = 0.0f;
      s.has_nan[i] = 0;
    }
    __syncthreads();
  }

  // The maxima of loose blocks. The first of a block's lanes in the warp gathers those that follow it; the
  // warp's last ones get their own value back.
  KILN_DEVICE void see_blocks(const f32 (&v)[COUNT]) {
    int lane = int(threadIdx.x % 32);
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 part[VALUES];
#pragma unroll
      for (int i = 0; i < VALUES; ++i) part[i] = v[h * VALUES + i];
      Amax seen = amax_of<code_t, BF16_VALUES>(part);
      int block = vector(h) / LANES, place = vector(h) % LANES;
      amax.is_ordinary &= seen.is_ordinary;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        bool is_same = place + step < LANES;
        f32 value = __shfl_down_sync(0xffffffffu, seen.value, step);
        if (is_same) seen.value = fmaxf(seen.value, value);
        if constexpr (TELLS_NAN) {
          int has_nan = __shfl_down_sync(0xffffffffu, int(seen.has_nan), step);
          seen.has_nan |= is_same && has_nan != 0;
        }
      }
      if ((lane > 0 && place > 0) || block >= BLOCKS) continue;
      atomicMax(reinterpret_cast<u32*>(&s.amax[block]), __float_as_uint(seen.value));
      if (TELLS_NAN && seen.has_nan) atomicOr(&s.has_nan[block], 1u);
    }
  }

  // What came together of a loose block; 0 beyond the row.
  KILN_DEVICE Amax amax_of_block(int block) const {
    bool is_there = block < BLOCKS;
    return {is_there ? s.amax[block] : 0.0f, TELLS_NAN && is_there && s.has_nan[block] != 0, amax.is_ordinary};
  }

  // The word of packed scale factors that begins with that of a loose block.
  template <class F, class M> KILN_DEVICE u32 word_of_blocks(int first_block, M clamp_min) const {
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      Scale scale = make_scale<F, true>(amax_of_block(first_block + i), clamp_min);
      if (first_block + i < BLOCKS) word |= scale.ue8m0 << i * 8;
    }
    return word;
  }

  // Every thread's amax becomes the row's, or those of loose blocks are there.
  KILN_DEVICE void reduce() {
    if constexpr (IS_LOOSE) return __syncthreads();
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) {
      amax.value = fmaxf(amax.value, __shfl_xor_sync(0xffffffffu, amax.value, lane));
    }
    if constexpr (TELLS_NAN) amax.has_nan = __any_sync(0xffffffffu, amax.has_nan) != 0;
    if constexpr (WARPS > 1) {
      int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
      if (lane == 0) {
        s.amax[warp] = amax.value;
        s.has_nan[warp] = amax.has_nan;
      }
      __syncthreads();
      amax.value = lane < WARPS ? s.amax[lane] : 0.0f;
      if constexpr (TELLS_NAN) amax.has_nan = lane < WARPS && s.has_nan[lane] != 0;
#pragma unroll
      for (int other = 16; other > 0; other /= 2) {
        amax.value = fmaxf(amax.value, __shfl_xor_sync(0xffffffffu, amax.value, other));
      }
      if constexpr (TELLS_NAN) amax.has_nan = __any_sync(0xffffffffu, amax.has_nan) != 0;
    }
  }

  template <class F, SfLayout LAYOUT, bool ROUND, class M>
  KILN_DEVICE auto quantize(const f32 (&v)[COUNT], M clamp_min) {
    QuantizedRow<F> q;
    if constexpr (IS_WHOLE) q.scale[0] = make_scale<F, ROUND>(amax, clamp_min);
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 part[VALUES];
#pragma unroll
      for (int i = 0; i < VALUES; ++i) part[i] = v[h * VALUES + i];
      Amax block = amax;
      if constexpr (IS_LOOSE) {
        block = amax_of_block(vector(h) / LANES);
      } else if constexpr (!IS_WHOLE) {
        block = amax_of_lanes<F>(part);
      }
      if constexpr (!IS_WHOLE) q.scale[h] = make_scale<F, ROUND>(block, clamp_min);
      if constexpr (IS_LOOSE && IS_PACKED) {
        if (vector(h) % WORD_LANES == 0) q.scale[h].ue8m0 = word_of_blocks<F>(vector(h) / LANES, clamp_min);
      }
      scale_and_encode<F, ROUND, BF16_VALUES>(part, q.scale[IS_WHOLE ? 0 : h].inv, block, q.codes[h]);
    }
    return q;
  }

  // Codes of values that are scaled already.
  template <class F> KILN_DEVICE auto encode(const f32 (&v)[COUNT]) {
    QuantizedRow<F> q{};
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      f32 part[VALUES];
#pragma unroll
      for (int i = 0; i < VALUES; ++i) part[i] = v[h * VALUES + i];
      encode_any(part, q.codes[h]);
    }
    return q;
  }

  // Of the vectors in the lanes that share a scale factor.
  template <class F> KILN_DEVICE Amax amax_of_lanes(const f32 (&v)[VALUES]) {
    Amax found = amax_of<F, BF16_VALUES>(v);
#pragma unroll
    for (int lane = 1; lane < LANES; lane *= 2) {
      found.value = fmaxf(found.value, __shfl_xor_sync(0xffffffffu, found.value, lane));
      if constexpr (TELLS_NAN) {
        found.has_nan |= __shfl_xor_sync(0xffffffffu, int(found.has_nan), lane) != 0;
      }
    }
    return found;
  }

  // A warp's 32 vectors of 12 bytes as 24 pieces of 16.
  template <class F> KILN_DEVICE void store_staged(const Codes<F, VALUES>& codes, int h, u8* data) {
    int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
    int begin = vector(h) - lane;
    int count = ROW_VECTORS % 32 == 0 ? 32 : min_int(32, ROW_VECTORS - begin);
    if (ROW_VECTORS % TILE_THREADS != 0 && begin >= ROW_VECTORS) return;  // a whole warp
    u32* stage = s.stage + warp * 96;
#pragma unroll
    for (int k = 0; k < 3; ++k) stage[lane * 3 + k] = codes.w[k];
    __syncwarp();
    if (is_row() && lane * 16 < count * 12) {
      u32x4 piece = reinterpret_cast<const u32x4*>(stage)[lane];
      ptx::store_cs(reinterpret_cast<u32x4*>(data + i64(begin) * 12) + lane, piece);
    }
    __syncwarp();
  }

  template <class F, class D, class S>
  KILN_DEVICE void store(const QuantizedRow<F>& q, D data, i64 stride, S sf, i64 ld) {
    if (KEEPS_SKIPPED && skipped) return;
    if constexpr (is_there<D>::VALUE) store_codes(q, data + packed_bytes<F>(row * stride));
    if constexpr (is_there<S>::VALUE) store_scales(q, sf, ld);
  }

  template <class F> KILN_DEVICE void store_codes(const QuantizedRow<F>& q, u8* data) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
      if constexpr (FULL && IS_STAGED) {
        store_staged(zero_if(skipped, q.codes[h]), h, data);
      } else if (is_inside(h)) {
        write<FULL>(data + packed_bytes<F>(i64(vector(h)) * VALUES), zero_if(skipped, q.codes[h]));
      }
    }
  }

  template <class F, class S> KILN_DEVICE void store_scales(const QuantizedRow<F>& q, S* sf, i64 ld) {
    bool is_pad = !is_row() && ld == align_up(num_rows, 4);
    if constexpr (IS_WHOLE) {
      if (threadIdx.x == 0 && first == 0) store_word(q.scale[0], sf, 0, ld, is_pad);
    } else {
#pragma unroll
      for (int h = 0; h < HELD; ++h) {
        int at = vector(h);
        Scale word = q.scale[h];
        if constexpr (IS_PACKED && !IS_LOOSE) word.ue8m0 = packed_word(word.ue8m0, at);
        if (at % WORD_LANES == 0 && at < ROW_VECTORS) {
          store_word(word, sf, at / WORD_LANES, ld, is_pad);
        }
      }
    }
  }

  // The word of packed scale factors that this thread's block is in, in every thread.
  KILN_DEVICE u32 packed_word(u32 ue8m0, int at) {
    u32 word = at < ROW_VECTORS ? ue8m0 << (at / LANES % 4 * 8) : 0;
#pragma unroll
    for (int lane = LANES; lane < WORD_LANES; lane *= 2) {
      word |= __shfl_xor_sync(0xffffffffu, word, lane);
    }
    return word;
  }

  template <class S>
  KILN_DEVICE void store_word(const Scale& scale, S* sf, int column, i64 ld, bool is_pad) {
    if (!is_row() && !is_pad) return;
    u32 bits = IS_PACKED ? scale.ue8m0 : __float_as_uint(scale.sf);
    store_sf<SF_LAYOUT>(sf, row, column, SF_COLUMNS, ld, is_pad || skipped ? 0 : bits);
  }
};

// What is quantised: after the stages that need the row's sum, if there are any.
template <class C, class V> KILN_DEVICE auto finish_row(const kiln_args& a, C& c, const V& values) {
  if constexpr (HAS_ROW_STAGE) {
    return chain_row(a, c, values);
  } else {
    return values;
  }
}

// The values at c.first of a row that does not wait in registers, once more.
template <class C> KILN_DEVICE auto load_again(const kiln_args& a, C& c) {
  if constexpr (ROW_HELD == RowHeld::SHARED) {
    Values<1, C::COUNT> values;
    c.get(values.v[0]);
    return finish_row(a, c, values);
  } else {
    return finish_row(a, c, chain_load(a, c));
  }
}

template <bool FULL> KILN_DEVICE void run_row(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  Row<FULL> c(chain_num_rows(a));
  if constexpr (IS_LOOSE) c.clear_blocks();
  if constexpr (ROW_HELD == RowHeld::REGISTERS) {
    auto loaded = chain_load(a, c);
    if constexpr (HAS_ROW_STAGE) {
      c.square(loaded.v[0]);
      c.reduce_squares();
    }
    auto values = finish_row(a, c, loaded);
    if constexpr (NEEDS_AMAX) {
      c.see(values.v[0]);
      c.reduce();
    }
    c.finish_counts();
    chain_store(a, c, values);
  } else {
    for (c.first = 0; c.first < ROW_VECTORS; c.first += TILE_THREADS) {
      auto loaded = chain_load(a, c);
      if constexpr (ROW_HELD == RowHeld::SHARED) c.put(loaded.v[0]);
      if constexpr (HAS_ROW_STAGE) {
        c.square(loaded.v[0]);
      } else {
        c.see(loaded.v[0]);
      }
    }
    c.is_again = true;
    c.finish_counts();  // what the next reading counts nobody asks for
    if constexpr (HAS_ROW_STAGE) {
      c.reduce_squares();
      for (c.first = 0; NEEDS_AMAX && c.first < ROW_VECTORS; c.first += TILE_THREADS) {
        c.see(load_again(a, c).v[0]);
      }
    }
    if constexpr (NEEDS_AMAX) c.reduce();
    for (c.first = 0; c.first < ROW_VECTORS; c.first += TILE_THREADS) {
      chain_store(a, c, load_again(a, c));
    }
  }
  c.finish_nonfinite();
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS, kiln::TILE_BLOCKS_PER_SM)
    row_full(const __grid_constant__ kiln::kiln_args a) {
  if constexpr (kiln::HAS_FULL) kiln::run_row<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS)
    row_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::run_row<false>(a);
}
