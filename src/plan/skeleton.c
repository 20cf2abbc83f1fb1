/* SPDX-License-Identifier: MIT */
/*
 * Which template runs a chain, and with which tile. The figures behind the choices are H200
 * measurements: one vector or two a thread and flat grids of small blocks win where no barrier
 * separates load and store; a row that waits for its amax wants several vectors a thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "plan/planner.h"

static int64_t at_least(int64_t value, int64_t low) {
  return value > low ? value : low;
}
static int64_t at_most(int64_t value, int64_t high) {
  return value < high ? value : high;
}
static int64_t align_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

/* The largest power of two up to `most` that divides `value`. */
static int64_t power_dividing(int64_t value, int64_t most) {
  int64_t power = 1;
  while (power * 2 <= most && value % (power * 2) == 0) power *= 2;
  return power;
}

static kiln_status refuse_tile(const struct kn_planner *p, const char *name, int64_t value,
                               const char *allowed) {
  return kn_fail(KILN_E_UNSUPPORTED, "%s: tile.%s is %" PRId64 "; allowed %s", p->plan->spec->name,
                 name, value, allowed);
}

/* Threads of a block: given, or the planner's choice. */
static kiln_status threads_of(struct kn_planner *p, int64_t fallback, int64_t *out) {
  *out = kn_tile(p, "threads", fallback);
  if (*out % 32 || *out > p->plan->limits->threads_per_block) {
    return refuse_tile(p, "threads", *out, "are multiples of 32 up to 1024");
  }
  return KILN_OK;
}

/* Values that fill whole groups of what is loaded and of what is stored. */
static int64_t pack_of(const struct kn_planner *p) {
  return at_least(kn_dtype_pack(p->chain.format),
                  kn_dtype_pack(p->plan->tensors[p->chain.load].dtype));
}

static kiln_status values_of(struct kn_planner *p, int64_t fallback, int64_t divides,
                             int64_t *out) {
  *out = kn_tile(p, "values", fallback);
  int64_t pack = pack_of(p);
  if (*out > 64 || (*out & (*out - 1)) || divides % *out || *out % pack) {
    return refuse_tile(p, "values", *out,
                       "are powers of two up to 64 that divide the block and fill whole bytes");
  }
  return KILN_OK;
}

static kiln_status add_chain_constants(struct kn_planner *p, int64_t values, bool has_full) {
  static const char *const layouts[] = {"SfLayout::ROW_MAJOR", "SfLayout::COL_MAJOR",
                                        "SfLayout::PACKED_UE8M0"};
  const struct kn_chain *chain = &p->chain;
  kiln_status status =
      kn_add_constant(p, KN_CONSTANT_TYPE, "code_t", kiln_dtype_name(chain->format));
  if (status == KILN_OK) status = kn_add_int(p, "COLS", chain->cols);
  if (status == KILN_OK) status = kn_add_int(p, "PARTS", chain->parts);
  if (status == KILN_OK) status = kn_add_int(p, "VALUES", values);
  if (status == KILN_OK) status = kn_add_int(p, "SF_ROWS", chain->sf_rows);
  if (status == KILN_OK) status = kn_add_int(p, "SF_COLS", chain->sf_cols);
  if (status == KILN_OK) {
    status = kn_add_constant(p, KN_CONSTANT_LAYOUT, "SF_LAYOUT", layouts[chain->layout]);
  }
  if (status == KILN_OK) status = kn_add_bool(p, "TRANSPOSED", chain->transposed);
  if (status == KILN_OK) status = kn_add_bool(p, "BF16_VALUES", chain->is_bf16);
  if (status == KILN_OK) status = kn_add_bool(p, "KEEPS_ZERO", chain->keeps_zero);
  if (status == KILN_OK) status = kn_add_bool(p, "KEEPS_SKIPPED", chain->keeps_skipped);
  if (status == KILN_OK) status = kn_add_bool(p, "COUNTS", chain->counts);
  if (status == KILN_OK) status = kn_add_bool(p, "COUNTS_NONFINITE", chain->counts_nonfinite);
  if (status == KILN_OK) status = kn_add_bool(p, "COMPUTES_SF", chain->computes_sf);
  if (status == KILN_OK) status = kn_add_bool(p, "HAS_FULL", has_full);
  return status;
}

/* Bytes of one full-width access among those that `values` elements take. */
static int64_t access_bytes(kiln_dtype dtype, int64_t values) {
  return power_dividing(kn_dtype_bytes(dtype, values), 16);
}

static kiln_status add_step(struct kn_planner *p, const char *template_name, int64_t threads,
                            int64_t shared, const char *grid, bool has_full, int64_t values,
                            int64_t x_align, int64_t out_align) {
  struct kn_plan *plan = p->plan;
  struct kn_plan_step *step = kn_arena_alloc(&plan->arena, 1, sizeof *step);
  struct kn_plan_variant *variants = kn_arena_alloc(&plan->arena, 2, sizeof *variants);
  size_t num_aligns = 0, most = 2 + (size_t)p->chain.num_columns;
  struct kn_align_spec *aligns = kn_arena_alloc(&plan->arena, most, sizeof *aligns);
  if (!step || !variants || !aligns) return kn_plan_no_memory(plan);
  if (shared > plan->limits->shared_per_block) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: its tile needs %" PRId64 " bytes of shared memory; %s allows %d",
                   plan->spec->name, shared, plan->limits->target, plan->limits->shared_per_block);
  }
  aligns[num_aligns].tensor = plan->tensors[p->chain.load].spec->name;
  aligns[num_aligns++].bytes = x_align;
  if (p->chain.data >= 0) {
    aligns[num_aligns].tensor = plan->tensors[p->chain.data].spec->name;
    aligns[num_aligns++].bytes = out_align;
  }
  for (int i = 0; i < p->chain.num_columns; ++i) {
    const struct kn_plan_tensor *tensor = &plan->tensors[p->chain.columns[i]];
    aligns[num_aligns].tensor = tensor->spec->name;
    aligns[num_aligns++].bytes = access_bytes(tensor->dtype, values);
  }
  size_t count = 0;
  if (has_full) {
    variants[count++] = (struct kn_plan_variant){
        kn_arena_printf(&plan->arena, "%s_full", template_name), aligns, num_aligns, NULL};
  }
  variants[count++] = (struct kn_plan_variant){
      kn_arena_printf(&plan->arena, "%s_any", template_name), NULL, 0, NULL};
  *step = (struct kn_plan_step){.name = template_name,
                                .threads = (int)threads,
                                .shared_bytes = (int)shared,
                                .variants = variants,
                                .num_variants = count};
  kiln_status status = kn_make_expr(plan, grid, &step->grid);
  plan->steps = step;
  plan->num_steps = 1;
  plan->template_path = kn_arena_printf(&plan->arena, "templates/%s.cu", template_name);
  return status;
}

/* The number of block rows as text: with column-major scales the padding rows are visited too. */
static const char *rows_text(struct kn_planner *p) {
  return kn_arena_printf(&p->plan->arena,
                         p->chain.layout == KN_SF_ROW_MAJOR ? "%s" : "align(%s, 4)",
                         p->chain.rows_text);
}

/* Whether rows of the contiguous output, and the second half of the input, keep the alignment. */
static bool rows_stay_aligned(const struct kn_planner *p, int64_t x_align, int64_t out_align) {
  const struct kn_chain *chain = &p->chain;
  const struct kn_plan_tensor *x = &p->plan->tensors[chain->load];
  const struct kn_plan_tensor *out = chain->data < 0 ? NULL : &p->plan->tensors[chain->data];
  bool halves = chain->parts == 1 || kn_dtype_bytes(x->dtype, chain->cols) % x_align == 0;
  bool rows =
      !out || out->stride_free[0] || kn_dtype_bytes(out->dtype, chain->cols) % out_align == 0;
  return halves && rows;
}

/* e2m1 with f32 scales codes by arithmetic, so a thread holds a whole block of 32 and no two do the
   same work. Else 32 bytes are read or 16 values held. */
static int64_t group_values(const struct kn_planner *p, bool packed) {
  const struct kn_chain *chain = &p->chain;
  bool is_wide = kiln_dtype_bits(p->plan->tensors[chain->load].dtype) == 32;
  if (chain->format == KILN_E2M1 && !packed) return at_most(chain->sf_cols, 32);
  return at_most(chain->sf_cols, is_wide && !packed ? 8 : 16);
}

/* Values that wait for no other: a thread reads and writes up to 32 bytes at a time. */
static int64_t free_values(const struct kn_planner *p) {
  const struct kn_chain *chain = &p->chain;
  int64_t bits = at_least(kiln_dtype_bits(p->plan->tensors[chain->load].dtype),
                          kiln_dtype_bits(chain->format));
  return at_least(power_dividing(chain->cols, at_most(256 / bits, 16)), pack_of(p));
}

static kiln_status plan_group(struct kn_planner *p) {
  const struct kn_chain *chain = &p->chain;
  const struct kn_plan_tensor *x = &p->plan->tensors[chain->load];
  bool packed = chain->layout == KN_SF_PACKED_UE8M0;
  int64_t values = 0, threads = 0;
  kiln_status status = values_of(p, group_values(p, packed), chain->sf_cols, &values);
  if (status != KILN_OK) return status;
  int64_t lanes = chain->sf_cols / values * (packed ? 4 : 1);
  int64_t chunks = align_up(chain->cols / values, packed ? lanes : 1);
  bool is_tall = chain->layout != KN_SF_ROW_MAJOR && chunks % 32 == 0;
  bool by_hand = kiln_dtype_bits(chain->format) != 8 || kiln_dtype_bits(x->dtype) < 16;
  /* Measured: sizes that are no power of two do well where blocks follow each other along rows. */
  status = threads_of(p, values > 16 ? 64 : is_tall ? (by_hand ? 256 : 512) : 448, &threads);
  if (status != KILN_OK) return status;
  if (lanes > 32) {
    return refuse_tile(p, "values", values,
                       "are those whose scale block, or packed word of four "
                       "blocks, fits one warp");
  }
  /* Registers that leave full occupancy, but for conversions by hand, gates, divisions and skipped
     rows. */
  int64_t registers = values > 16                              ? (chain->skips ? 56 : 50)
                      : chain->parts == 2 || chain->has_global ? 64
                      : by_hand && !packed                     ? 48
                                                               : 32;
  (void)kn_tile(p, "blocks_per_sm",
                at_least(p->plan->limits->registers_per_sm / (threads * registers), 1));
  int64_t x_align = access_bytes(x->dtype, values);
  int64_t out_align = access_bytes(chain->format, values);
  bool has_full = rows_stay_aligned(p, x_align, out_align);
  const char *rows = rows_text(p);
  int64_t counters = (chain->counts ? 3 : 0) + (chain->counts_nonfinite ? 1 : 0);
  status = add_chain_constants(p, values, has_full);
  if (status == KILN_OK) status = kn_add_bool(p, "IS_TALL", is_tall);
  if (status != KILN_OK) return status;
  return add_step(p, "group", threads, threads * 4 + (counters ? threads / 32 * 4 * counters : 4),
                  is_tall
                      ? kn_arena_printf(&p->plan->arena, "ceil_div(%s, %" PRId64 ") * %" PRId64,
                                        rows, threads / 32, chunks / 32)
                      : kn_arena_printf(&p->plan->arena, "ceil_div(%s * %" PRId64 ", %" PRId64 ")",
                                        rows, chunks, threads),
                  has_full, values, x_align, out_align);
}

/* Whether threads can hold their part of a row in registers. */
static bool fits_registers(const struct kn_planner *p, int64_t threads, int64_t held) {
  int64_t registers = p->plan->limits->registers_per_sm / threads;
  return held <= 64 && held + 32 <= registers;
}

/* Where a row waits for its amax or its sum: in registers, in shared memory, or it is read again.
 */
static kiln_status hold_row(struct kn_planner *p, int64_t threads, int64_t held, int64_t *shared) {
  static const char *const names[] = {"RowHeld::REGISTERS", "RowHeld::SHARED", "RowHeld::NOWHERE"};
  static const char *const told[] = {"in registers", "in shared memory",
                                     "nowhere and is read again"};
  const struct kn_chain *chain = &p->chain;
  int where = fits_registers(p, threads, held) ? 0 : 1;
  if (where == 1 && *shared + chain->cols * 4 + 16 > p->plan->limits->shared_per_block) where = 2;
  *shared += where == 1 ? align_up(chain->cols, 4) * 4 : 16;
  p->plan->row_held = told[where];
  return kn_add_constant(p, KN_CONSTANT_ROW_HELD, "ROW_HELD", names[where]);
}

static kiln_status plan_row(struct kn_planner *p) {
  const struct kn_chain *chain = &p->chain;
  const struct kn_plan_tensor *x = &p->plan->tensors[chain->load];
  bool packed = chain->layout == KN_SF_PACKED_UE8M0, whole = chain->sf_cols == chain->cols;
  /* Four blocks, which share a packed word, lie in one warp if they are no wider than 128. */
  int64_t wanted = !whole && packed ? at_most(at_least(chain->sf_cols / 8, 8), 16) : 8;
  int64_t values = 0, threads = 0;
  if (chain->sf_cols % pack_of(p)) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: the scale block is (1, %" PRId64 "); allowed are multiples of %" PRId64
                   ", so that codes which share bytes share a scale factor",
                   p->plan->spec->name, chain->sf_cols, pack_of(p));
  }
  kiln_status status = values_of(p, at_least(power_dividing(chain->sf_cols, wanted), pack_of(p)),
                                 chain->sf_cols, &values);
  if (status != KILN_OK) return status;
  bool staged = chain->format == KILN_E5M6 && values == 8 && chain->data >= 0;
  if (chain->format == KILN_E5M6 && whole && values != 8) {
    return refuse_tile(p, "values", values, "is 8 for whole rows of e5m6");
  }
  /* Whether the block lies in neighbouring lanes, or anywhere, so that its amax needs a place. */
  int64_t lanes = chain->sf_cols / values;
  bool loose = !whole && ((lanes & (lanes - 1)) || lanes * (packed ? 4 : 1) > 32);
  int64_t maxima = loose ? align_up(chain->cols / chain->sf_cols, 4) : 32;
  int64_t vectors = chain->cols / values;
  /* Two vectors a thread; e5m6, which converts longest, four. */
  int64_t share = align_up((vectors + (staged ? 3 : 1)) / (staged ? 4 : 2), 32);
  status =
      threads_of(p, at_most(at_least(share, at_most(align_up(vectors, 32), 128)), 1024), &threads);
  if (status != KILN_OK) return status;
  int64_t held = align_up(vectors, threads) / threads * values;
  int64_t registers = held <= 16   ? (kiln_dtype_bits(chain->format) == 8 ? 32 : 40)
                      : held <= 32 ? 56
                      : held <= 64 ? 96
                                   : 64;
  if (chain->parts == 2) registers += 32;
  if (chain->has_row_stage || chain->has_matrices) registers += 16;
  (void)kn_tile(p, "blocks_per_sm",
                at_least(p->plan->limits->registers_per_sm / (threads * registers), 1));
  int64_t x_align = access_bytes(x->dtype, values);
  int64_t out_align = staged ? 16 : access_bytes(chain->format, values);
  bool has_full = values > 1 && rows_stay_aligned(p, x_align, out_align);
  int64_t sums = chain->has_row_stage ? align_up((vectors + 31) / 32, 4) * 4 : 16;
  int64_t shared = maxima * 8 + (staged ? threads * 12 : 16) +
                   (chain->counts || chain->counts_nonfinite ? threads / 2 : 16) + sums;
  status = add_chain_constants(p, values, has_full);
  if (status == KILN_OK) status = kn_add_bool(p, "IS_STAGED", staged);
  if (status == KILN_OK) status = kn_add_bool(p, "HAS_ROW_STAGE", chain->has_row_stage);
  if (status == KILN_OK) status = hold_row(p, threads, held, &shared);
  if (status != KILN_OK) return status;
  return add_step(p, "row", threads, shared, rows_text(p), has_full, values, x_align, out_align);
}

static kiln_status plan_channel(struct kn_planner *p) {
  const struct kn_chain *chain = &p->chain;
  const struct kn_plan_tensor *x = &p->plan->tensors[chain->load];
  const int64_t values = 8;
  const int64_t piece = 128 / kiln_dtype_bits(x->dtype); /* elements of an asynchronous copy */
  int64_t threads = 0;
  if (kn_dtype_pack(x->dtype) > 1 || chain->data < 0) {
    return kn_fail(KILN_E_UNSUPPORTED, "%s: scale blocks of (%" PRId64 ", 1) come with %s",
                   p->plan->spec->name, chain->sf_rows,
                   chain->data < 0 ? "codes that are stored, not with scale factors alone"
                                   : "loaded elements of 8, 16 or 32 bits");
  }
  kiln_status status = threads_of(p, 256, &threads);
  if (status != KILN_OK) return status;
  int64_t tokens = kn_tile(p, "tokens", 128), channels = kn_tile(p, "channels", 64);
  (void)kn_tile(p, "blocks_per_sm", at_least(1024 / threads, 1));
  if (chain->has_matrices) {
    return kn_fail(
        KILN_E_UNSUPPORTED,
        "%s: a second matrix comes with scale blocks of whole rows, (1, n) or {32, 128} x "
        "{32, 128}, not with (%" PRId64 ", 1)",
        p->plan->spec->name, chain->sf_rows);
  }
  if (tokens % chain->sf_rows || (tokens & (tokens - 1))) {
    return refuse_tile(p, "tokens", tokens, "are powers of two that hold whole scale blocks");
  }
  if ((channels & (channels - 1)) || channels < at_least(8, piece) || channels > 256) {
    return refuse_tile(
        p, "channels", channels,
        piece > 8 ? "are powers of two from 16 to 256" : "are powers of two from 8 to 256");
  }
  int64_t rows_a_thread = tokens * channels / values / threads;
  int64_t rows_a_warp = rows_a_thread * 32 / (channels / values);
  if (rows_a_thread < 4 || rows_a_thread % 4 || chain->sf_rows % rows_a_warp) {
    return refuse_tile(p, "threads", threads,
                       "are those that leave a multiple of 4 tokens to each thread, and to each "
                       "warp tokens of one scale block");
  }
  if (chain->layout != KN_SF_ROW_MAJOR || kiln_dtype_bits(chain->format) != 8) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: scale blocks of (rows, 1) come with 8-bit codes and row-major scales",
                   p->plan->spec->name);
  }
  int64_t shared = chain->parts * tokens * channels * kn_dtype_bytes(x->dtype, 1) +
                   (threads / 32 + tokens / chain->sf_rows) * channels * 4;
  int64_t out_align = chain->transposed ? 16 : 8;
  bool has_full = chain->cols % at_least(values, piece) == 0 && rows_stay_aligned(p, 16, out_align);
  status = add_chain_constants(p, values, has_full);
  if (status == KILN_OK) {
    status = kn_add_constant(p, KN_CONSTANT_TYPE, "input_t", kiln_dtype_name(x->dtype));
  }
  if (status != KILN_OK) return status;
  const char *rows = rows_text(p);
  return add_step(p, "channel", threads, shared,
                  kn_arena_printf(&p->plan->arena, "ceil_div(%s, %" PRId64 ") * %" PRId64, rows,
                                  tokens, (chain->cols + channels - 1) / channels),
                  has_full, values, 16, out_align);
}

static kiln_status plan_block(struct kn_planner *p) {
  enum { CHANNELS = 128, HELD = 32 }; /* of a tile; values of a thread */
  const struct kn_chain *chain = &p->chain;
  const struct kn_plan_tensor *x = &p->plan->tensors[chain->load];
  int64_t values = 0, threads = 0;
  kiln_status status =
      values_of(p, at_least(power_dividing(chain->cols, 8), pack_of(p)), chain->cols, &values);
  if (status == KILN_OK && (values > HELD || CHANNELS / values > 256)) {
    return refuse_tile(p, "values", values, "are powers of two up to 32");
  }
  if (status == KILN_OK) status = threads_of(p, chain->sf_rows * CHANNELS / HELD, &threads);
  if (status != KILN_OK) return status;
  int64_t step = threads * values / CHANNELS;
  if (step == 0 || threads * values % CHANNELS || chain->sf_rows % step ||
      (CHANNELS / values > 32 && step * (CHANNELS / values) % 32)) {
    return refuse_tile(p, "threads", threads, "are those that share the block's rows evenly");
  }
  (void)kn_tile(p, "channels", CHANNELS);
  (void)kn_tile(
      p, "blocks_per_sm",
      at_least(p->plan->limits->registers_per_sm / (threads * (chain->parts == 2 ? 72 : 56)), 1));
  int64_t x_align = access_bytes(x->dtype, values);
  int64_t out_align = access_bytes(chain->format, values);
  bool has_full = values > 1 && rows_stay_aligned(p, x_align, out_align);
  status = add_chain_constants(p, values, has_full);
  if (status != KILN_OK) return status;
  return add_step(
      p, "block", threads, CHANNELS / chain->sf_cols * threads / 4,
      kn_arena_printf(&p->plan->arena, "ceil_div(%s, %" PRId64 ") * %" PRId64, chain->rows_text,
                      chain->sf_rows, (chain->cols + CHANNELS - 1) / CHANNELS),
      has_full, values, x_align, out_align);
}

kiln_status kn_plan_skeleton(struct kn_planner *p) {
  struct kn_chain *chain = &p->chain;
  if (!chain->computes_sf && chain->transposed) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: transposed codes come with scale factors that are computed, not given",
                   p->plan->spec->name);
  }
  if (!chain->computes_sf) {
    /* As if a scale block were what a thread holds, or with a row stage the row. */
    chain->layout = KN_SF_ROW_MAJOR;
    chain->sf_rows = 1;
    chain->sf_cols = chain->has_row_stage ? chain->cols : free_values(p);
    return chain->has_row_stage ? plan_row(p) : plan_group(p);
  }
  bool in_warp = chain->sf_rows == 1 && (chain->sf_cols == 16 || chain->sf_cols == 32 ||
                                         chain->sf_cols == 64 || chain->sf_cols == 128);
  if (chain->transposed && chain->sf_rows == 1) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: transposed codes come with scale blocks of (rows, 1), not (1, %" PRId64 ")",
                   p->plan->spec->name, chain->sf_cols);
  }
  if (chain->sf_rows > 1 && (chain->skips || chain->counts)) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: rows are %s where scale blocks are of one row, not of %" PRId64,
                   p->plan->spec->name, chain->skips ? "skipped" : "counted", chain->sf_rows);
  }
  in_warp = in_warp && chain->cols % chain->sf_cols == 0;
  const bool is_block = (chain->sf_rows == 32 || chain->sf_rows == 128) &&
                        (chain->sf_cols == 32 || chain->sf_cols == 128);
  if (chain->has_global && chain->has_row_stage) {
    return kn_fail(KILN_E_UNSUPPORTED, "%s: nvfp4 does not stand behind rmsnorm",
                   p->plan->spec->name);
  }
  if (chain->requantizes && !in_warp && !is_block) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: codes are moved to scale blocks of (1, n) with n of 16, 32, 64, 128 that "
                   "divides the row, or of {32, 128} x {32, 128}, not of (%" PRId64 ", %" PRId64
                   ")",
                   p->plan->spec->name, chain->sf_rows, chain->sf_cols);
  }
  const bool in_row = chain->sf_rows == 1 && chain->cols % chain->sf_cols == 0;
  if (chain->has_row_stage && !in_row) {
    return kn_fail(KILN_E_UNSUPPORTED,
                   "%s: rmsnorm comes with scale blocks of one row, (1, n) with n that divides the "
                   "row (%" PRId64 "), not of (%" PRId64 ", %" PRId64 ")",
                   p->plan->spec->name, chain->cols, chain->sf_rows, chain->sf_cols);
  }
  if (in_warp && !chain->has_row_stage) return plan_group(p);
  if (in_row) return plan_row(p);
  if (chain->sf_cols == 1 && (chain->sf_rows == 32 || chain->sf_rows == 128)) {
    return plan_channel(p);
  }
  if (is_block && !chain->transposed && chain->format != KILN_E5M6) {
    return plan_block(p);
  }
  return kn_fail(KILN_E_UNSUPPORTED,
                 "%s: the scale block is (%" PRId64 ", %" PRId64
                 "); allowed are (1, n) with n that divides the row (%" PRId64
                 "), (32, 1), (128, 1), and not transposed or e5m6 {32, 128} x {32, 128}",
                 p->plan->spec->name, chain->sf_rows, chain->sf_cols, chain->cols);
}
