// SPDX-License-Identifier: MIT
// The best of a token's scores, found by one warp. Scores become integers that sort as the contract
// ranks: NaN below every number, -0 equal to +0. The warp then takes the largest key and, of those that
// have it, the smallest index: no two lanes can take the same, and what is no score is never taken.
#pragma once
#include "kiln/access.cuh"

namespace kiln {

constexpr u32 WHOLE_WARP = 0xffffffffu;
constexpr u32 NO_KEY = 0, NAN_KEY = 1;  // of what is no score, and the least of a score

KILN_DEVICE u32 rank_key(f32 score) {
  u32 bits = __float_as_uint(score);
  if (is_nan(score)) return NAN_KEY;
  if (bits == 0x80000000u) bits = 0;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
// A score that has this key.
KILN_DEVICE f32 score_of(u32 key) {
  if (key == NAN_KEY) return __uint_as_float(0x7fc00000u);
  return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

KILN_DEVICE constexpr int power_of_two_from(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

// How GROUPS groups of SIZE scores lie in a warp: LANES lanes hold a group, in runs of WIDTH consecutive
// scores, one run after the other; TEAMS groups at a time. Value j of a lane has the index
// base(lane) + offset(j), and offsets ascend.
template <int GROUPS, int SIZE> struct Spread {
  static constexpr int LANES = GROUPS > 32 ? 1 : 32 / power_of_two_from(GROUPS);
  static constexpr int TEAMS = 32 / LANES;
  static constexpr int ROUNDS = int(ceil_div(GROUPS, TEAMS));
  static constexpr int WIDTH = SIZE % (LANES * 4) == 0 ? 4 : SIZE % (LANES * 2) == 0 ? 2 : 1;
  static constexpr int IN_ROUND = int(ceil_div(SIZE, LANES * WIDTH)) * WIDTH;  // values of a group
  static constexpr int VALUES = ROUNDS * IN_ROUND;

  KILN_DEVICE static int base(int lane) { return lane / LANES * SIZE + lane % LANES * WIDTH; }
  KILN_DEVICE static constexpr int offset(int j) {
    return j / IN_ROUND * TEAMS * SIZE + j % IN_ROUND / WIDTH * LANES * WIDTH + j % WIDTH;
  }
  // Whether value j of a lane is a score.
  KILN_DEVICE static bool is_score(int lane, int j) {
    bool is_group = GROUPS % TEAMS == 0 || j / IN_ROUND * TEAMS + lane / LANES < GROUPS;
    bool is_within = SIZE % (LANES * WIDTH) == 0 ||
                     j % IN_ROUND / WIDTH * LANES * WIDTH + lane % LANES * WIDTH < SIZE;
    return is_group && is_within;
  }
};

// The lane's scores of a row, as f32; 0 where it has none.
template <bool FULL, class S, class T>
KILN_DEVICE void read_scores(const T* row, int lane, f32 (&out)[S::VALUES]) {
  const T* from = row + S::base(lane);
#pragma unroll
  for (int j = 0; j < S::VALUES; j += S::WIDTH) {
    f32 run[S::WIDTH];
    read<FULL>(from + S::offset(j), S::is_score(lane, j), run);
#pragma unroll
    for (int i = 0; i < S::WIDTH; ++i) out[j + i] = run[i];
  }
}

template <class S>
KILN_DEVICE void keys_of(const f32 (&scores)[S::VALUES], int lane, u32 (&keys)[S::VALUES]) {
#pragma unroll
  for (int j = 0; j < S::VALUES; ++j) {
    keys[j] = S::is_score(lane, j) ? rank_key(scores[j]) : NO_KEY;
  }
}

// Calls take(k, index) in all lanes for the `count` largest keys of the warp, best first; they become
// NO_KEY. S says which index a value has.
template <class S, int VALUES, class F>
KILN_DEVICE void take_best(u32 (&keys)[VALUES], int base, int count, F take) {
  u32 best = NO_KEY;
  int at = 0;
#pragma unroll
  for (int j = 0; j < VALUES; ++j) {
    if (keys[j] > best) {
      best = keys[j];
      at = S::offset(j);
    }
  }
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
    u32 most = __reduce_max_sync(WHOLE_WARP, best);
    u32 own = best == most ? u32(base + at) : ~0u;
    u32 index = __reduce_min_sync(WHOLE_WARP, own);
    take(k, index);
    if (own != index) continue;
    int taken = at;
    best = NO_KEY;
#pragma unroll
    for (int j = 0; j < VALUES; ++j) {
      if (S::offset(j) == taken) keys[j] = NO_KEY;
      if (keys[j] > best) {
        best = keys[j];
        at = S::offset(j);
      }
    }
  }
}

// The K best of a row's scores: lane k keeps the k-th, and of more than 32 each 32nd that follows.
template <bool FULL, class S, int K, class T, class I>
KILN_DEVICE void choose_best(const T* row, int lane, I (&chosen)[ceil_div(K, 32)]) {
  f32 scores[S::VALUES];
  u32 keys[S::VALUES];
  read_scores<FULL, S>(row, lane, scores);
  keys_of<S>(scores, lane, keys);
  take_best<S>(keys, S::base(lane), K, [&](int k, u32 index) {
#pragma unroll
    for (int i = 0; i < int(ceil_div(K, 32)); ++i) {
      if (k == i * 32 + lane) chosen[i] = I(index);
    }
  });
}

// ---- groups ----

// Where the keys of groups lie: one in each round of a Spread, the same in all lanes of a team.
template <class S> struct GroupSpread {
  KILN_DEVICE static int base(int lane) { return lane / S::LANES; }
  KILN_DEVICE static constexpr int offset(int j) { return j * S::TEAMS; }
};

// The sum of each group's best one or two scores, as a key.
template <class S, int GROUPS, int BEST>
KILN_DEVICE void group_keys(const u32 (&keys)[S::VALUES], int lane, u32 (&out)[S::ROUNDS]) {
#pragma unroll
  for (int r = 0; r < S::ROUNDS; ++r) {
    u32 first = NO_KEY, second = NO_KEY;
#pragma unroll
    for (int j = r * S::IN_ROUND; j < (r + 1) * S::IN_ROUND; ++j) {
      second = max(second, min(first, keys[j]));
      first = max(first, keys[j]);
    }
#pragma unroll
    for (int other = 1; other < S::LANES; other *= 2) {
      u32 their_first = __shfl_xor_sync(WHOLE_WARP, first, other);
      u32 their_second = __shfl_xor_sync(WHOLE_WARP, second, other);
      second = max(max(second, their_second), min(first, their_first));
      first = max(first, their_first);
    }
    f32 sum = score_of(first);
    if (BEST == 2) sum = __fadd_rn(sum, score_of(second));
    out[r] = r * S::TEAMS + lane / S::LANES < GROUPS ? rank_key(sum) : NO_KEY;
  }
}

}  // namespace kiln
