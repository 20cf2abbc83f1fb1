// SPDX-License-Identifier: MIT
// Matrices of 1-, 2- or 4-byte elements transposed, alone or in a batch.
//
// A tile of TILE x TILE a block. A thread reads HEIGHT rows of 16 bytes, turns them with byte permutes,
// and puts a piece of each column into shared memory, whose 16-byte chunks are swizzled by column; then
// 16-byte chunks leave row by row. Blocks run down the rows first, so that neighbours in time write
// neighbouring pieces of the same output rows.
//
// Parameters: x_t, X_RANK (3: with batch)
// Threads: min(256, 128 * sizeof(x_t)); shared bytes: TILE * TILE * sizeof(x_t)
// needs: kiln/access.cuh
namespace kiln {

constexpr int SIZE = int(sizeof(x_t));
constexpr int TILE = SIZE == 4 ? 64 : 128;
constexpr int THREADS = SIZE == 1 ? 128 : 256;
constexpr int WIDTH = 16 / SIZE;               // columns of a thread
constexpr int COLUMN_GROUPS = TILE / WIDTH;
constexpr int HEIGHT = TILE * COLUMN_GROUPS / THREADS;  // rows of a thread
constexpr int WORDS = HEIGHT * SIZE / 4;       // of a piece of a column
constexpr int CHUNKS = TILE * SIZE / 16;       // of a column in the tile

struct TransposeShared {
  u32x4 columns[TILE][CHUNKS];
};

static_assert(sizeof(TransposeShared) == TILE * TILE * SIZE, "the spec counts so");

using bits_t = typename access<SIZE>::type;

// One 16-byte piece of an input row; what lies beyond `valid` elements is zero.
template <bool FULL> KILN_DEVICE u32x4 read_piece(const x_t* p, i64 valid) {
  if (FULL && valid >= WIDTH) return ptx::load_cs(reinterpret_cast<const u32x4*>(p));
  u32 w[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) {
    if (i < valid) {
      w[i * SIZE / 4] |= u32(ptx::load_cs(reinterpret_cast<const bits_t*>(p) + i))
                         << (i * SIZE % 4 * 8);
    }
  }
  return {w[0], w[1], w[2], w[3]};
}

KILN_DEVICE u32 word_of(const u32x4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Column k of HEIGHT rows as words.
KILN_DEVICE void column_of(const u32x4 (&rows)[HEIGHT], int k, u32 (&out)[WORDS]) {
#pragma unroll
  for (int j = 0; j < WORDS; ++j) {
    int q = k * SIZE / 4;
    if constexpr (SIZE == 4) {
      out[j] = word_of(rows[j], q);
    } else if constexpr (SIZE == 2) {
      out[j] = ptx::byte_permute(word_of(rows[j * 2], q), word_of(rows[j * 2 + 1], q),
                                 k % 2 ? 0x7632 : 0x5410);
    } else {
      u32 pairs = k % 4 < 2 ? 0x5140 : 0x7362;
      u32 low = ptx::byte_permute(word_of(rows[j * 4], q), word_of(rows[j * 4 + 1], q), pairs);
      u32 high = ptx::byte_permute(word_of(rows[j * 4 + 2], q), word_of(rows[j * 4 + 3], q), pairs);
      out[j] = ptx::byte_permute(low, high, k % 2 ? 0x7632 : 0x5410);
    }
  }
}

// One 16-byte piece of an output row of which `valid` elements lie in the matrix.
template <bool FULL> KILN_DEVICE void write_piece(x_t* p, const u32x4& v, i64 valid) {
  if (FULL && valid >= WIDTH) {
    ptx::store_cs(reinterpret_cast<u32x4*>(p), v);
    return;
  }
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) {
    if (i < valid) {
      ptx::store_cs(reinterpret_cast<bits_t*>(p) + i,
                    bits_t(word_of(v, i * SIZE / 4) >> (i * SIZE % 4 * 8)));
    }
  }
}

// The matrix that a block works on, and its tile of it. Generic, since a batch is not always there.
template <class A> struct Place {
  const x_t* x;
  x_t* out;
  i64 stride, row, column;

  KILN_DEVICE explicit Place(const A& a) {
    i64 row_tiles = ceil_div(a.num_rows, TILE);
    i64 tiles = row_tiles * ceil_div(a.num_cols, TILE);
    i64 at = blockIdx.x;
    if constexpr (X_RANK == 3) {
      i64 matrix = at / tiles;
      at -= matrix * tiles;
      x = a.x + matrix * a.x_stride0;
      out = a.out + matrix * a.num_rows * a.num_cols;
      stride = a.x_stride1;
    } else {
      x = a.x;
      out = a.out;
      stride = a.x_stride0;
    }
    column = at / row_tiles * TILE;
    row = at % row_tiles * TILE;
  }
};

template <bool FULL, class A> KILN_DEVICE void transpose(const A& a) {
  TransposeShared& s = shared<TransposeShared>();
  Place<A> at(a);
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();

  u32 group = threadIdx.x % COLUMN_GROUPS, first = threadIdx.x / COLUMN_GROUPS * HEIGHT;
  i64 column = at.column + group * WIDTH;
  u32x4 rows[HEIGHT];
#pragma unroll
  for (int r = 0; r < HEIGHT; ++r) {
    i64 row = at.row + first + r;
    i64 valid = row < a.num_rows ? a.num_cols - column : 0;
    rows[r] = read_piece<FULL>(at.x + row * at.stride + column, valid);
  }
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    u32 piece[WORDS];
    column_of(rows, k, piece);
    u32 chunk = (first * SIZE / 16) ^ (group % CHUNKS);
    u32* to = reinterpret_cast<u32*>(&s.columns[group * WIDTH + k][chunk]) + first * SIZE % 16 / 4;
    if constexpr (WORDS == 4) {
      *reinterpret_cast<u32x4*>(to) = {piece[0], piece[1], piece[2], piece[3]};
    } else {
      *reinterpret_cast<u32x2*>(to) = {piece[0], piece[1]};
    }
  }
  __syncthreads();
#pragma unroll
  for (u32 i = threadIdx.x; i < TILE * CHUNKS; i += THREADS) {
    u32 c = i / CHUNKS, chunk = i % CHUNKS;
    i64 row = at.row + chunk * WIDTH;
    if (at.column + c >= a.num_cols || row >= a.num_rows) continue;
    write_piece<FULL>(at.out + (at.column + c) * a.num_rows + row,
                      s.columns[c][chunk ^ (c / WIDTH % CHUNKS)], a.num_rows - row);
  }
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    transpose_full(const __grid_constant__ kiln::kiln_args a) {
  kiln::transpose<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::THREADS)
    transpose_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::transpose<false>(a);
}
