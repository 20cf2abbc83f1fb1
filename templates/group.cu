// SPDX-License-Identifier: MIT
// Chains whose scale block is (1, SF_COLS) with SF_COLS <= 128: the block sits in neighbouring lanes of
// one warp, so there is no barrier across warps.
//
// A flat grid of small blocks; a thread holds VALUES consecutive values of one row. Per row there are
// CHUNKS threads. Where scale factors are packed, CHUNKS is rounded up so that the four blocks of a
// word never straddle two rows or two warps; the spare threads hold zeros.
//
// Parameters: COLS, PARTS, VALUES, SF_ROWS, SF_COLS, SF_LAYOUT, BF16_VALUES, HAS_FULL, IS_TALL, TILE_THREADS,
//             TILE_BLOCKS_PER_SM, STAGE_BYTES, chain_num_rows, chain_load, chain_store
// Shared bytes: STAGE_BYTES, what a block reads of one part if a thread reads more than 32 bytes, else 0
// needs: kiln/rowwise.cuh
namespace kiln {

constexpr bool IS_PACKED = SF_LAYOUT == SfLayout::PACKED_UE8M0;
constexpr int LANES = SF_COLS / VALUES;              // threads that share a scale factor
constexpr int WORD_LANES = LANES * (IS_PACKED ? 4 : 1);  // threads that write one word of them
constexpr int CHUNKS = int(align_up(COLS / VALUES, IS_PACKED ? WORD_LANES : 1));
constexpr int SF_COLUMNS = int(ceil_div(COLS / SF_COLS, IS_PACKED ? 4 : 1));

// Where IS_TALL, for column-major scale factors, the warps of a block take consecutive rows, so that a
// column's words of these rows are written together. Else a block is a part of one row where that
// comes out even.
static_assert(!IS_TALL || CHUNKS % 32 == 0, "a warp stays within a row");
constexpr bool IS_FLAT = !IS_TALL && CHUNKS % TILE_THREADS != 0;
constexpr u32 ROW_PARTS = IS_FLAT ? 1 : CHUNKS / (IS_TALL ? 32 : TILE_THREADS);  // blocks beside each other

static_assert(TILE_THREADS % 32 == 0, "whole warps");
static_assert(SF_ROWS == 1 && COLS % SF_COLS == 0, "blocks of one row");
static_assert(SF_COLS % VALUES == 0 && WORD_LANES <= 32, "a block and a word fit one warp");

struct GroupShared {
  u32x4 stage[STAGE_BYTES / 16 > 0 ? STAGE_BYTES / 16 : 1];
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

  i64 num_rows, first_row, row;
  u32 at;  // the thread's chunk, counted from the first of first_row
  int chunk;
  bool inside;  // of the matrix: the others hold zeros and take part in shuffles

  KILN_DEVICE explicit Group(i64 rows) : num_rows(rows) {
    if constexpr (IS_TALL) {
      first_row = i64(blockIdx.x / ROW_PARTS) * (TILE_THREADS / 32) + threadIdx.x / 32;
      at = blockIdx.x % ROW_PARTS * 32 + threadIdx.x % 32;
    } else if constexpr (!IS_FLAT) {
      first_row = blockIdx.x / ROW_PARTS;
      at = blockIdx.x % ROW_PARTS * TILE_THREADS + threadIdx.x;
    } else {
      i64 first = i64(blockIdx.x) * TILE_THREADS;
      first_row = first / CHUNKS;
      at = u32(first - first_row * CHUNKS) + threadIdx.x;
    }
    row = row_of(at);
    chunk = chunk_of(at);
    inside = is_inside(row, chunk);
  }

  KILN_DEVICE i64 row_of(u32 other) const {
    return IS_FLAT ? first_row + other / CHUNKS : first_row;
  }
  KILN_DEVICE int chunk_of(u32 other) const {
    return int(IS_FLAT ? other % CHUNKS : other);
  }
  KILN_DEVICE bool is_inside(i64 r, int c) const { return r < num_rows && c < COLS / VALUES; }

  template <class T> KILN_DEVICE void read(const T* x, i64 stride, int part, f32 (&out)[VALUES]) {
    if constexpr (FULL && VALUES * sizeof(T) > 32) {
      read_staged(x, stride, part, out);
    } else if (inside) {
      kiln::read<FULL>(x + row * stride + i64(part) * COLS + i64(chunk) * VALUES, out);
    } else {
#pragma unroll
      for (int i = 0; i < VALUES; ++i) out[i] = 0.0f;
    }
  }

  // More than 32 bytes a thread would be read in halves of sectors. Instead a warp copies its chunks in
  // consecutive pieces of 16 bytes to shared memory, where each thread finds its own; pieces are
  // swizzled so that eight threads meet eight banks of 16 bytes.
  template <class T>
  KILN_DEVICE void read_staged(const T* x, i64 stride, int part, f32 (&out)[VALUES]) {
    constexpr int PIECES = VALUES * int(sizeof(T)) / 16, PIECE = 16 / int(sizeof(T));
    int lane = int(threadIdx.x % 32);
    u32x4* stage = shared<GroupShared>().stage + (threadIdx.x - u32(lane)) * PIECES;
    // A warp within one row reads consecutive memory; else each piece's chunk is looked up.
    constexpr bool IN_ROW = CHUNKS % 32 == 0;
    const T* begin = x + row * stride + i64(part) * COLS + i64(chunk - lane) * VALUES + lane * PIECE;
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
      u32 piece = u32(j * 32 + lane), owner = piece / PIECES, within = piece % PIECES;
      const T* from = begin + j * 32 * PIECE;
      bool is_there = row < num_rows && chunk - lane + int(owner) < COLS / VALUES;
      if constexpr (!IN_ROW) {
        i64 r = row_of(at - u32(lane) + owner);
        int c = chunk_of(at - u32(lane) + owner);
        from = x + r * stride + i64(part) * COLS + i64(c) * VALUES + within * PIECE;
        is_there = is_inside(r, c);
      }
      ptx::copy_async_16(&stage[slot<PIECES>(owner, within)], from, is_there);
    }
    ptx::copy_async_wait_all();
    __syncwarp();
    u32 words[PIECES * 4];
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
      spread(stage[slot<PIECES>(u32(lane), u32(j))], &words[j * 4]);
    }
    unpack<T>(words, out);
    __syncwarp();  // the stage may be used again, for another part
  }

  template <u32 PIECES> static KILN_DEVICE u32 slot(u32 owner, u32 within) {
    return owner * PIECES + (within ^ (owner * PIECES / 8 % PIECES));
  }

  template <class F, SfLayout LAYOUT, bool ROUND, class M>
  KILN_DEVICE auto quantize(const f32 (&v)[VALUES], M clamp_min) {
    Amax amax = amax_of<F, BF16_VALUES>(v);
#pragma unroll
    for (int lane = 1; lane < LANES; lane *= 2) {
      amax.value = fmaxf(amax.value, __shfl_xor_sync(0xffffffffu, amax.value, lane));
      if (format<F>::BITS == 4) {
        amax.has_nan |= __shfl_xor_sync(0xffffffffu, int(amax.has_nan), lane) != 0;
      }
    }
    QuantizedBlock<F> q;
    q.scale = make_scale<F, ROUND>(amax, clamp_min);
    scale_and_encode<F, ROUND, BF16_VALUES>(v, q.scale.inv, amax.is_ordinary, q.codes);
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

  template <class F, class S>
  KILN_DEVICE void store(const QuantizedBlock<F>& q, u8* data, i64 stride, S* sf, i64 ld) {
    u32 bits = IS_PACKED ? packed_word(q.scale.ue8m0) : __float_as_uint(q.scale.sf);
    if (inside) {
      write<FULL>(data + packed_bytes<F>(row * stride + i64(chunk) * VALUES), q.codes);
    }
    if (u32(chunk) % WORD_LANES != 0) return;
    // Rows that pad a column are written 0, but only where the distance of columns is the default.
    bool is_pad = SF_LAYOUT != SfLayout::ROW_MAJOR && row >= num_rows &&
                  row < align_up(num_rows, 4) && ld == align_up(num_rows, 4);
    if (row < num_rows || is_pad) {
      store_sf<SF_LAYOUT>(sf, row, u32(chunk) / WORD_LANES, SF_COLUMNS, ld, is_pad ? 0 : bits);
    }
  }
};

template <bool FULL> KILN_DEVICE void group(const kiln_args& a) {
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();
  Group<FULL> c(chain_num_rows(a));
  chain_store(a, c, chain_load(a, c));
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
