// SPDX-License-Identifier: MIT
// Chains whose scale block is (SF_ROWS, 1): a tile of TILE_TOKENS x TILE_CHANNELS a block of threads,
// one scale a channel and SF_ROWS tokens, the codes transposed on the way out or not.
//
// The tile comes in by cp.async, all of it in flight at once, with several blocks an SM. A thread works
// on 8 channels of ROWS consecutive tokens. Where the values to be cast are bf16 and a gate left room,
// they wait for their scale in the place of the gate (IN_PLACE), which takes no registers and lets the
// loop over tokens stay a loop; else in registers. Two conversions of two tokens each give four codes of one
// channel, so transposing costs no byte shuffles: a word goes to [channel][token] in shared memory,
// whose 16-byte pieces are swizzled by channel / 8, and leaves in 16-byte pieces.
//
// Parameters: COLS, PARTS, VALUES (8), SF_ROWS, SF_COLS, BF16_VALUES, KEEPS_ZERO, COUNTS_NONFINITE, HAS_FULL,
//             TILE_TOKENS, TILE_CHANNELS, TILE_THREADS, TILE_BLOCKS_PER_SM, x_t, chain_num_rows, chain_load,
//             chain_store
// Shared bytes: PARTS * TILE_TOKENS * TILE_CHANNELS * sizeof(input_t)
//               + (TILE_THREADS / 32 + TILE_TOKENS / SF_ROWS) * TILE_CHANNELS * 4
// needs: kiln/columns.cuh kiln/counters.cuh kiln/pair.cuh kiln/scale.cuh
namespace kiln {

constexpr int GROUPS = TILE_CHANNELS / VALUES;  // threads side by side
constexpr int ROWS = TILE_TOKENS * GROUPS / TILE_THREADS;  // tokens of a thread
constexpr int WARPS = TILE_THREADS / 32;
constexpr int WARP_ROWS = 32 / GROUPS * ROWS;  // tokens of a warp
constexpr int BLOCKS = TILE_TOKENS / SF_ROWS;  // scale blocks of a channel in the tile
constexpr int BLOCK_WARPS = SF_ROWS / WARP_ROWS;
constexpr int SCALES = TILE_CHANNELS * BLOCKS;
constexpr int THREAD_SCALES = int(ceil_div(SCALES, TILE_THREADS));
constexpr int PIECES = TILE_TOKENS / 16;  // 16-byte pieces of a channel's codes
constexpr bool IN_PLACE = BF16_VALUES && PARTS == 2 && sizeof(input_t) == 2;
constexpr int UNROLL = IN_PLACE ? 1 : ROWS;
constexpr int CHANNEL_TILES = int(ceil_div(COLS, TILE_CHANNELS));

static_assert(VALUES == 8 && 32 % GROUPS == 0 && ROWS % 4 == 0, "how a tile is dealt out");
static_assert(SF_COLS == 1 && SF_ROWS % WARP_ROWS == 0, "a warp's tokens share their scales");
static_assert((PIECES & (PIECES - 1)) == 0, "pieces are swizzled by exclusive or");

struct ChannelShared {
  alignas(16) input_t x[PARTS][TILE_TOKENS][TILE_CHANNELS];
  f32 amax[WARPS][TILE_CHANNELS];
  alignas(16) f32 inv[BLOCKS][TILE_CHANNELS];
};
static_assert(sizeof(ChannelShared) ==
                  PARTS * TILE_TOKENS * TILE_CHANNELS * sizeof(input_t) +
                      (WARPS + BLOCKS) * TILE_CHANNELS * 4,
              "the planner counts so");

// Where the block's tile lies.
struct Tile {
  i64 num_rows, token;
  int channel;

  KILN_DEVICE explicit Tile(i64 rows) : num_rows(rows) {
    token = i64(blockIdx.x / u32(CHANNEL_TILES)) * TILE_TOKENS;
    channel = int(blockIdx.x % u32(CHANNEL_TILES)) * TILE_CHANNELS;
  }

  // Tokens of the tile that lie in the matrix.
  KILN_DEVICE int rows() const {
    i64 left = num_rows - token;
    return left < TILE_TOKENS ? int(left) : TILE_TOKENS;
  }
};

// The context that brings the tile in: it starts the copies and hands on zeros, on which the chain's
// element stages come to nothing.
template <bool FULL> struct Fetch {
  static constexpr int COUNT = 1;
  const Tile& tile;
  ChannelShared& s;

  // A thread copies one piece of every STEP-th token; its column does not change.
  KILN_DEVICE void read(const input_t* x, i64 stride, int part, f32 (&out)[1]) {
    constexpr int PIECE = FULL ? 16 / int(sizeof(input_t)) : 1;  // elements
    constexpr int WIDTH = TILE_CHANNELS / PIECE;
    constexpr int STEP = TILE_THREADS / WIDTH;
    static_assert(TILE_THREADS % WIDTH == 0 && TILE_TOKENS % STEP == 0, "whole passes");
    int row = int(threadIdx.x / WIDTH), column = int(threadIdx.x % WIDTH) * PIECE;
    int rows = tile.channel + column < COLS ? tile.rows() : 0;
    const input_t* from = x + (tile.token + row) * stride + i64(part) * COLS + tile.channel + column;
#pragma unroll(FULL ? TILE_TOKENS / STEP : 1)
    for (int pass = 0; pass < TILE_TOKENS / STEP; ++pass) {
      copy(&s.x[part][row][column], from, row < rows);
      row += STEP;
      from += STEP * stride;
    }
    out[0] = 0.0f;
  }
  template <class T> KILN_DEVICE void read_columns(const T*, int, f32 (&out)[1]) { out[0] = 0.0f; }
  template <class T> KILN_DEVICE T row_value(const T*, T outside) const { return outside; }
  KILN_DEVICE bool leads_row() const { return false; }
  template <class G> KILN_DEVICE void read_scales(const G&, int, f32 (&out)[1]) { out[0] = 0.0f; }

  // The same of rows from anywhere. Where they lie is asked for all at once.
  template <class R>
  KILN_DEVICE void read(const input_t* x, R map, int part, f32 (&out)[1]) {
    constexpr int PIECE = FULL ? 16 / int(sizeof(input_t)) : 1;
    constexpr int WIDTH = TILE_CHANNELS / PIECE;
    constexpr int STEP = TILE_THREADS / WIDTH, PASSES = TILE_TOKENS / STEP;
    constexpr int AT_ONCE = FULL ? PASSES : 1;
    int row = int(threadIdx.x / WIDTH), column = int(threadIdx.x % WIDTH) * PIECE;
    int rows = tile.channel + column < COLS ? tile.rows() : 0;
    x += i64(part) * COLS + tile.channel + column;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass += AT_ONCE) {
      i64 from[AT_ONCE];
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        int r = row + (pass + i) * STEP;
        from[i] = r < rows ? map.offset(tile.token + r) : -1;
      }
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        copy(&s.x[part][row + (pass + i) * STEP][column], x + from[i], from[i] >= 0);
      }
    }
    out[0] = 0.0f;
  }

  KILN_DEVICE void copy(input_t* to, const input_t* from, bool inside) {
    if constexpr (FULL) {
      ptx::copy_async_16(to, from, inside);
    } else {
      using bits_t = typename access<sizeof(input_t)>::type;
      bits_t bits = 0;
      if (inside) bits = ptx::load_cs(reinterpret_cast<const bits_t*>(from));
      *reinterpret_cast<bits_t*>(to) = bits;
    }
  }
};

// The context of one token of a thread: reads its 8 channels from shared memory.
template <bool FULL> struct Token {
  static constexpr int COUNT = VALUES;
  const Tile& tile;
  ChannelShared& s;
  int row, group;

  template <class R> KILN_DEVICE void read(const input_t*, R, int part, f32 (&out)[VALUES]) {
    constexpr int WIDTH = access_width(VALUES * int(sizeof(input_t)));
    constexpr int VECTORS = VALUES * int(sizeof(input_t)) / WIDTH;
    using vector_t = typename access<WIDTH>::type;
    u32 words[VECTORS * WIDTH / 4];
    const vector_t* from = reinterpret_cast<const vector_t*>(&s.x[part][row][group * VALUES]);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) spread(from[i], &words[i * WIDTH / 4]);
    unpack<input_t>(words, out);
  }
  // Scale factors that are given, for the thread's values; 0 beyond the last channel.
  template <class G> KILN_DEVICE void read_scales(const G& grid, int part, f32 (&out)[VALUES]) {
    constexpr int RUN = common_divisor(COLS, VALUES);
    int channel = tile.channel + group * VALUES;
#pragma unroll
    for (int i = 0; i < VALUES; i += RUN) {
      f32 run[RUN];
      bool inside = row < tile.rows() && channel + i < COLS;
      read_grid<RUN>(grid, inside, tile.token + row, part * COLS + channel + i, run);
#pragma unroll
      for (int k = 0; k < RUN; ++k) out[i + k] = run[k];
    }
  }

  // Numbers by column, for the thread's values.
  template <class T> KILN_DEVICE void read_columns(const T* p, int part, f32 (&out)[VALUES]) {
    int channel = tile.channel + group * VALUES;
    p += part * COLS + channel;
    if constexpr (FULL) {
      if (channel < COLS) return read_cached<true>(p, out);
    }
#pragma unroll
    for (int k = 0; k < VALUES; ++k) out[k] = channel + k < COLS ? to_f32(p[k]) : 0.0f;
  }
  // A number by row.
  template <class T> KILN_DEVICE T row_value(const T* p, T outside) const {
    return row < tile.rows() ? p[tile.token + row] : outside;
  }
  // Whether the thread is the one of its row that looks at the row's index.
  KILN_DEVICE bool leads_row() const { return tile.channel == 0 && group == 0 && row < tile.rows(); }
};

// A thread's values between load and quantize: in registers, or in shared memory where the gate was.
struct InRegisters {
  f32 v[ROWS][VALUES];
  KILN_DEVICE void set(ChannelShared&, int, int, int r, const f32 (&from)[VALUES]) {
#pragma unroll
    for (int k = 0; k < VALUES; ++k) v[r][k] = from[k];
  }
  KILN_DEVICE void get(ChannelShared&, int, int, int r, f32 (&to)[VALUES]) const {
#pragma unroll
    for (int k = 0; k < VALUES; ++k) to[k] = v[r][k];
  }
};
struct InShared {
  KILN_DEVICE void set(ChannelShared& s, int row, int group, int r, const f32 (&from)[VALUES]) {
    u32 words[VALUES / 2];
    pack_bf16(from, words);
    *reinterpret_cast<u32x4*>(&s.x[0][row + r][group * VALUES]) = {words[0], words[1], words[2],
                                                                   words[3]};
  }
  KILN_DEVICE void get(ChannelShared& s, int row, int group, int r, f32 (&to)[VALUES]) const {
    u32 words[VALUES / 2];
    spread(*reinterpret_cast<const u32x4*>(&s.x[0][row + r][group * VALUES]), words);
    unpack<bf16>(words, to);
  }
};
template <bool> struct holder {
  using type = InRegisters;
};
template <> struct holder<true> {
  using type = InShared;
};
using held_t = typename holder<IN_PLACE>::type;

// What chain_store gets: the values of a tile, as a chain's values have parts.
struct TileValues {
  static constexpr int PARTS = 1;
  held_t v[1];
};

// A tile whose scales are known: its values, the inverse scales of the thread's channels, and the
// scales that the thread computed.
template <class F> struct QuantizedTile {
  const held_t& values;
  f32 inv[VALUES];
  f32 sf[THREAD_SCALES];
};
struct TransposedTile {
  const f32* sf;
};

// The context of the whole tile.
template <bool FULL> struct Channel {
  static constexpr int SF_BLOCK_ROWS = SF_ROWS;
  static constexpr int SF_BLOCK_COLS = SF_COLS;
  const Tile& tile;
  ChannelShared& s;
  f32 amax[VALUES];  // of the thread's channels over its tokens
  Counters<1> nonfinite;

  KILN_DEVICE int group() const { return int(threadIdx.x % GROUPS); }
  KILN_DEVICE int row() const { return int(threadIdx.x / GROUPS) * ROWS; }
  // The codes of a transposed tile take the place of the last part: its values have been used.
  KILN_DEVICE u32x4* codes(u32 channel) {
    return reinterpret_cast<u32x4*>(s.x[PARTS - 1]) + channel * PIECES;
  }

  KILN_DEVICE void see(const f32 (&v)[VALUES]) {
#pragma unroll
    for (int k = 0; k < VALUES; ++k) amax[k] = fmaxf(amax[k], fabsf(v[k]));
  }

  KILN_DEVICE void count_nonfinite(const held_t& values) {
#pragma unroll(UNROLL)
    for (int r = 0; r < ROWS; ++r) {
      f32 v[VALUES];
      bool is_inside = KEEPS_ZERO || row() + r < tile.rows();  // as for the amax
      values.get(s, row(), group(), r, v);
#pragma unroll
      for (int k = 0; k < VALUES; ++k) nonfinite.n[0] += is_inside && is_nonfinite(v[k]);
    }
  }
  // Where the amaxes were: nobody reads them any more when codes are stored.
  KILN_DEVICE void finish_nonfinite() {
    if constexpr (COUNTS_NONFINITE) {
      add_counters<WARPS>(nonfinite, reinterpret_cast<u32*>(&s.amax[0][0]));
    }
  }

  // The largest magnitude of each of the thread's channels over the warp's tokens.
  KILN_DEVICE void reduce_warp() {
    int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
#pragma unroll
    for (int k = 0; k < VALUES; ++k) {
#pragma unroll
      for (int other = GROUPS; other < 32; other *= 2) {
        amax[k] = fmaxf(amax[k], __shfl_xor_sync(0xffffffffu, amax[k], other));
      }
      if (lane < GROUPS) s.amax[warp][lane * VALUES + k] = amax[k];
    }
  }

  template <class F, SfLayout LAYOUT, bool ROUND, class M>
  KILN_DEVICE auto quantize(const held_t& values, M clamp_min) {
    static_assert(format<F>::BITS == 8 && LAYOUT == SfLayout::ROW_MAJOR, "bytes, row-major scales");
    QuantizedTile<F> q{values};
    reduce_warp();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREAD_SCALES; ++i) {
      u32 at = u32(i) * TILE_THREADS + threadIdx.x;
      u32 block = at / TILE_CHANNELS, channel = at % TILE_CHANNELS;
      q.sf[i] = 0.0f;
      if (at < SCALES) {
        f32 largest = 0.0f;
#pragma unroll 2
        for (int w = 0; w < BLOCK_WARPS; ++w) {
          largest = fmaxf(largest, s.amax[block * BLOCK_WARPS + w][channel]);
        }
        Scale scale = make_scale<F, ROUND>(Amax{largest, false, true}, clamp_min);
        s.inv[block][channel] = scale.inv;
        q.sf[i] = scale.sf;
      }
    }
    __syncthreads();
    const f32* inv = &s.inv[u32(row()) / SF_ROWS][group() * VALUES];
#pragma unroll
    for (int k = 0; k < VALUES; k += 4) {
      u32 words[4];
      spread(*reinterpret_cast<const u32x4*>(inv + k), words);
#pragma unroll
      for (int i = 0; i < 4; ++i) q.inv[k + i] = __uint_as_float(words[i]);
    }
    return q;
  }

  // The values of token r of the thread times the inverse scales.
  template <class F>
  KILN_DEVICE void scaled(const QuantizedTile<F>& q, int r, f32 (&out)[VALUES]) {
    f32 v[VALUES];
    q.values.get(s, row(), group(), r, v);
#pragma unroll
    for (int k = 0; k < VALUES; ++k) out[k] = ptx::mul(v[k], q.inv[k]);
  }

  // Four tokens of a channel make a word.
  template <class F> KILN_DEVICE TransposedTile transpose(const QuantizedTile<F>& q) {
#pragma unroll(UNROLL == 1 ? 1 : ROWS / 4)
    for (int r = 0; r < ROWS; r += 4) {
      f32 v[4][VALUES];
#pragma unroll
      for (int i = 0; i < 4; ++i) scaled(q, r + i, v[i]);
      u32 token = u32(row() + r);
      u32 piece = (token / 16) ^ (u32(group()) % PIECES);
#pragma unroll
      for (int k = 0; k < VALUES; ++k) {
        u32 low = two_codes(F{}, v[0][k], v[1][k]), high = two_codes(F{}, v[2][k], v[3][k]);
        u32* to = reinterpret_cast<u32*>(codes(u32(group() * VALUES + k)) + piece);
        to[token % 16 / 4] = low | high << 16;
      }
    }
    __syncthreads();
    return {q.sf};
  }

  template <class S> KILN_DEVICE void store_scales(const f32* scales, S* sf) {
#pragma unroll
    for (int i = 0; i < THREAD_SCALES; ++i) {
      u32 at = u32(i) * TILE_THREADS + threadIdx.x;
      i64 token = tile.token + i64(at / TILE_CHANNELS) * SF_ROWS;
      i64 channel = tile.channel + at % TILE_CHANNELS;
      if (at < SCALES && token < tile.num_rows && channel < COLS) {
        ptx::store_cs(reinterpret_cast<u32*>(sf) + token / SF_ROWS * COLS + channel,
                      __float_as_uint(scales[i]));
      }
    }
  }

  // Rows of tokens: 8 codes a thread and token.
  template <class F, class S>
  KILN_DEVICE void store(const QuantizedTile<F>& q, u8* data, i64 stride, S* sf, i64) {
    int channel = tile.channel + group() * VALUES;
#pragma unroll(UNROLL)
    for (int r = 0; r < ROWS; ++r) {
      if (row() + r >= tile.rows() || channel >= COLS) continue;
      f32 v[VALUES];
      Codes<F, VALUES> codes;
      scaled(q, r, v);
      encode(v, codes);
      u8* to = data + (tile.token + row() + r) * stride + channel;
      if constexpr (FULL) {
        write<true>(to, codes);
      } else {
#pragma unroll
        for (int k = 0; k < VALUES; ++k) {
          if (channel + k < COLS) ptx::store_cs(to + k, u8(codes.w[k / 4] >> k % 4 * 8));
        }
      }
    }
    store_scales(q.sf, sf);
  }

  // Rows of channels: 16 tokens a piece.
  template <class S>
  KILN_DEVICE void store(const TransposedTile& q, u8* data, i64 stride, S* sf, i64) {
#pragma unroll 2
    for (u32 i = threadIdx.x; i < TILE_CHANNELS * PIECES; i += TILE_THREADS) {
      int channel = int(i / PIECES), piece = int(i % PIECES);
      i64 token = tile.token + piece * 16;
      if (token >= tile.num_rows || tile.channel + channel >= COLS) continue;
      const u32x4* from = codes(u32(channel)) + (u32(piece) ^ (u32(channel) / VALUES % PIECES));
      u8* to = data + i64(tile.channel + channel) * stride + token;
      if (FULL && token + 16 <= tile.num_rows) {
        ptx::store_cs(reinterpret_cast<u32x4*>(to), *from);
      } else {
        int count = token + 16 <= tile.num_rows ? 16 : int(tile.num_rows - token);
#pragma unroll 1
        for (int k = 0; k < count; ++k) {
          ptx::store_cs(to + k, reinterpret_cast<const u8*>(from)[k]);
        }
      }
    }
    store_scales(q.sf, sf);
  }
};

template <bool FULL> KILN_DEVICE void run_channel(const kiln_args& a) {
  ChannelShared& s = shared<ChannelShared>();
  Tile tile(chain_num_rows(a));
  ptx::grid_launch_dependents();
  ptx::grid_dependency_wait();

  Fetch<FULL> fetch{tile, s};
  chain_load(a, fetch);
  ptx::copy_async_wait_all();
  __syncthreads();

  Channel<FULL> c{tile, s, {}};
  TileValues values;
#pragma unroll(UNROLL)
  for (int r = 0; r < ROWS; ++r) {
    Token<FULL> token{tile, s, c.row() + r, c.group()};
    auto v = chain_load(a, token);
    // Zeros stand for tokens outside, unless a stage made them something else.
    if (KEEPS_ZERO || c.row() + r < tile.rows()) c.see(v.v[0]);
    values.v[0].set(s, c.row(), c.group(), r, v.v[0]);
  }
  chain_store(a, c, values);
  c.finish_nonfinite();
}

}  // namespace kiln

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS, kiln::TILE_BLOCKS_PER_SM)
    channel_full(const __grid_constant__ kiln::kiln_args a) {
  if constexpr (kiln::HAS_FULL) kiln::run_channel<true>(a);
}

extern "C" __global__ void __launch_bounds__(kiln::TILE_THREADS)
    channel_any(const __grid_constant__ kiln::kiln_args a) {
  kiln::run_channel<false>(a);
}
