// SPDX-License-Identifier: MIT
// Chains whose scale block is SF_ROWS x SF_COLS, both 32 or 128: a block of threads holds SF_ROWS rows of
// TILE_CHANNELS columns in registers between their amax and their cast.
//
// A thread holds VECTORS vectors of VALUES values, below each other, so that all of them share a scale.
//
// Parameters: COLS, PARTS, VALUES, SF_ROWS, SF_COLS, SF_LAYOUT, BF16_VALUES, KEEPS_ZERO,
//             COUNTS_NONFINITE, HAS_FULL, TILE_CHANNELS, TILE_THREADS, TILE_BLOCKS_PER_SM, code_t, chain_num_rows,
//             chain_load, chain_store
// Shared bytes: 8 * GROUPS * WARPS
// needs: kiln/rowwise.cuh
namespace kiln {

constexpr int WARPS = TILE_THREADS / 32;
constexpr int WIDTH = TILE_CHANNELS / VALUES;  // threads beside each other
constexpr int STEP = TILE_THREADS / WIDTH;     // rows between a thread's vectors
constexpr int VECTORS = SF_ROWS / STEP;
constexpr int GROUPS = TILE_CHANNELS / SF_COLS;  // scales of a block of threads
constexpr int GROUP_WIDTH = SF_COLS / VALUES;
constexpr int SF_COLUMNS = int(ceil_div(COLS, SF_COLS));
constexpr u32 TILES = u32(ceil_div(COLS, TILE_CHANNELS));  // tiles beside each other
constexpr bool TELLS_NAN = format<code_t>::BITS == 4;

static_assert(TILE_THREADS % 32 == 0 && TILE_THREADS % WIDTH == 0, "whole warps, whole rows");
static_assert(SF_ROWS % STEP == 0, "all rows of the tile have a thread");
static_assert(TILE_CHANNELS % SF_COLS == 0 && SF_COLS % VALUES == 0, "vectors share a scale");
static_assert(COLS % VALUES == 0, "vectors do not straddle rows");
static_assert(GROUPS == 1 || GROUP_WIDTH <= 32, "a warp's lanes of a scale are neighbours");

struct BlockShared {
  f32 amax[GROUPS][WARPS];
  u32 has_nan[GROUPS][WARPS];
};

// The codes of a thread, and the scale that they share.
template <class F> struct QuantizedVectors {
  Codes<F, VALUES> codes[VECTORS];
  Scale scale;
};

// Where a thread is.
struct Place {
  i64 num_rows, block_row, row;
  int column, group;

  KILN_DEVICE explicit Place(i64 rows)
      : num_rows(rows),
        block_row(blockIdx.x / TILES),
        row(block_row * SF_ROWS + threadIdx.x / WIDTH),
        column(int(blockIdx.x % TILES * TILE_CHANNELS + threadIdx.x % WIDTH * VALUES)),
        group(int(threadIdx.x % WIDTH / GROUP_WIDTH)) {}

  KILN_DEVICE bool is_inside(int vector) const {
    return row + vector * STEP < num_rows && (COLS % TILE_CHANNELS == 0 || column < COLS);
  }
};

// The context of one vector of a thread.
template <bool FULL> struct Vector {
  static constexpr int COUNT = VALUES;
  static constexpr bool is_again = false;  // a row is read once
  const Place& place;
  i64 row;
  bool inside;

  KILN_DEVICE Vector(const Place& p, int vector)
      : place(p), row(p.row + vector * STEP), inside(p.is_inside(vector)) {}

  template <class T> KILN_DEVICE void read(const T* x, i64 stride, int part, f32 (&out)[VALUES]) {
    kiln::read<FULL>(at(x, row * stride + i64(part) * COLS + place.column), inside, out);
  }
  template <class T, class R> KILN_DEVICE void read(const T* x, R rows, int part, f32 (&out)[VALUES]) {
    i64 from = inside ? rows.offset(row) : -1;
    kiln::read<FULL>(at(x, from + i64(part) * COLS + place.column), from >= 0, out);
  }
  // Scale factors that are given, for the vector's values.
  template <class G> KILN_DEVICE void read_scales(const G& grid, int part, f32 (&out)[VALUES]) {
    read_grid<common_divisor(COLS, VALUES)>(grid, inside, row, part * COLS + place.column, out);
  }
  template <class T>
  KILN_DEVICE void write_matrix(T* out, i64 stride, int part, const f32 (&v)[VALUES]) {
    if (inside) write_values<FULL>(out + row * stride + i64(part) * COLS + place.column, v);
  }
  // Numbers by column, for the vector's values.
  template <class T> KILN_DEVICE void read_columns(const T* p, int part, f32 (&out)[VALUES]) {
    read_cached<FULL>(p + (inside ? part * COLS + place.column : 0), out);
  }
  // A number by row.
  template <class T> KILN_DEVICE T row_value(const T* p, T outside) const {
    return row < place.num_rows ? p[row] : outside;
  }
  // Whether the thread is the one of its row that looks at the row's index.
  KILN_DEVICE bool leads_row() const { return inside && place.column == 0; }
};

// The context of all of a thread's vectors.
template <bool FULL> struct Block {
  static constexpr int COUNT = VECTORS * VALUES;
  static constexpr int SF_BLOCK_ROWS = SF_ROWS;
  static constexpr int SF_BLOCK_COLS = SF_COLS;
  const Place& place;
  Counters<1> nonfinite;

  KILN_DEVICE void count_nonfinite(const f32 (&v)[COUNT]) { see_nonfinite(*this, v); }
  // Where the amaxes were, which all threads have read by then.
  KILN_DEVICE void finish_nonfinite() {
    if constexpr (COUNTS_NONFINITE) {
      __syncthreads();
      add_counters<WARPS>(nonfinite, shared<BlockShared>().has_nan[0]);
    }
  }

  // The largest of what a warp's lanes of one group have. A warp holds several rows where they are
  // narrower than it.
  KILN_DEVICE Amax reduce_warp(Amax amax) {
#pragma unroll
    for (int lane = 1; lane < 32; lane *= 2) {
      if (lane >= GROUP_WIDTH && lane < WIDTH) continue;
      amax.value = fmaxf(amax.value, __shfl_xor_sync(0xffffffffu, amax.value, lane));
      if constexpr (TELLS_NAN) {
        amax.has_nan |= __shfl_xor_sync(0xffffffffu, int(amax.has_nan), lane) != 0;
      }
    }
    return amax;
  }

  // The largest of the block's. Where rows are wider than a warp, each warp has some groups only.
  KILN_DEVICE Amax share(Amax amax) {
    BlockShared& s = shared<BlockShared>();
    int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
    amax = reduce_warp(amax);
    if (lane < WIDTH && lane % GROUP_WIDTH == 0) {
      s.amax[place.group][warp] = amax.value;
      s.has_nan[place.group][warp] = amax.has_nan;
    }
    __syncthreads();
    constexpr int ROW_WARPS = WIDTH > 32 ? WIDTH / 32 : 1;
    int first = GROUPS == 1 ? 0 : warp % ROW_WARPS;
#pragma unroll
    for (int w = 0; w < WARPS / (GROUPS == 1 ? 1 : ROW_WARPS); ++w) {
      int other = first + w * (GROUPS == 1 ? 1 : ROW_WARPS);
      amax.value = fmaxf(amax.value, s.amax[place.group][other]);
      if constexpr (TELLS_NAN) amax.has_nan |= s.has_nan[place.group][other] != 0;
    }
    return amax;
  }

  template <class F, SfLayout LAYOUT, bool ROUND, class M>
  KILN_DEVICE auto quantize(const f32 (&v)[COUNT], M clamp_min) {
    Amax amax = share(amax_of<F, BF16_VALUES>(v));
    QuantizedVectors<F> q;
    q.scale = make_scale<F, ROUND>(amax, clamp_min);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      f32 part[VALUES];
#pragma unroll
      for (int k = 0; k < VALUES; ++k) part[k] = v[i * VALUES + k];
      scale_and_encode<F, ROUND, BF16_VALUES>(part, q.scale.inv, amax, q.codes[i]);
    }
    return q;
  }

  // Scale factors that are given, for the values of all vectors.
  template <class G> KILN_DEVICE void read_scales(const G& grid, int part, f32 (&out)[COUNT]) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      f32 v[VALUES];
      Vector<FULL>(place, i).read_scales(grid, part, v);
#pragma unroll
      for (int k = 0; k < VALUES; ++k) out[i * VALUES + k] = v[k];
    }
  }
  KILN_DEVICE bool is_counted(int i) const { return place.is_inside(i / VALUES); }

  // Codes of values that are scaled already.
  template <class F> KILN_DEVICE auto encode(const f32 (&v)[COUNT], Scale scale) {
    QuantizedVectors<F> q;
    q.scale = scale;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      f32 part[VALUES];
#pragma unroll
      for (int k = 0; k < VALUES; ++k) part[k] = v[i * VALUES + k];
      encode_any(part, q.codes[i]);
    }
    return q;
  }

  template <class F, class D, class S>
  KILN_DEVICE void store(const QuantizedVectors<F>& q, D data, i64 stride, S sf, i64 ld) {
#pragma unroll
    for (int i = 0; is_there<D>::VALUE && i < VECTORS; ++i) {
      if (!place.is_inside(i)) continue;
      i64 from = (place.row + i * STEP) * stride + place.column;
      if constexpr (is_there<D>::VALUE) write<FULL>(data + packed_bytes<F>(from), q.codes[i]);
    }
    if (threadIdx.x < WIDTH && place.column % SF_COLS == 0 && place.column < COLS) {
      if constexpr (is_there<S>::VALUE) store_scale(q.scale, place.column / SF_COLS, sf, ld);
    }
  }

  // One thread a scale. That of the last block row also zeroes the rows which pad a column, where the
  // distance of columns is the default, and that of the last block column the bytes that fill a word up.
  template <class S> KILN_DEVICE void store_scale(const Scale& scale, int column, S* sf, i64 ld) {
    i64 rows = ceil_div(place.num_rows, SF_ROWS), end = place.block_row + 1;
    if (end == rows && ld == align_up(rows, 4)) end = ld;
    if constexpr (SF_LAYOUT == SfLayout::PACKED_UE8M0) {
      int last = column + 1 == SF_COLUMNS ? int(align_up(SF_COLUMNS, 4)) : column + 1;
      for (i64 r = place.block_row; r < end; ++r) {
        u8* word = reinterpret_cast<u8*>(sf) + (column / 4 * ld + r) * 4;
        for (int c = column; c < last; ++c) {
          bool is_scale = c == column && r == place.block_row;
          ptx::store_cs(word + c % 4, u8(is_scale ? scale.ue8m0 : 0));
        }
      }
    } else {
      u32 bits = __float_as_uint(scale.sf);
      store_sf<SF_LAYOUT>(sf, place.block_row, column, SF_COLUMNS, ld, bits);
      for (i64 r = place.block_row + 1; SF_LAYOUT == SfLayout::COL_MAJOR && r < end; ++r) {
        store_sf<SF_LAYOUT>(sf, r, column, SF_COLUMNS, ld, 0);
      }
    }
  }
};

template <bool FULL> KILN_DEVICE void run_block(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  Place place(chain_num_rows(a));
  Values<1, VECTORS * VALUES> values;
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    Vector<FULL> vector(place, i);
    auto loaded = chain_load(a, vector);
#pragma unroll
    for (int k = 0; k < VALUES; ++k) {
      bool counts = KEEPS_ZERO || vector.inside;
      values.v[0][i * VALUES + k] = counts ? loaded.v[0][k] : 0.0f;
    }
  }
  Block<FULL> c{place};
  chain_store(a, c, values);
  c.finish_nonfinite();
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS, kiln::TILE_BLOCKS_PER_SM)
    block_full(const __grid_constant__ kiln::kiln_args a) {
  if constexpr (kiln::HAS_FULL) kiln::run_block<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS)
    block_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::run_block<false>(a);
}
