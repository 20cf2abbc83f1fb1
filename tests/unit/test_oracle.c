/* SPDX-License-Identifier: MIT */
/* The oracle against the contract's vectors, and on cases small enough to work out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "oracle/oracle.h"

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static FILE *open_vectors(const char *name) {
  char path[512], line[256];
  FILE *file;
  (void)snprintf(path, sizeof path, KILN_TEST_DATA "/vectors/%s.csv", name);
  file = fopen(path, "r");
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  return file;
}

static const struct {
  const char *name;
  kiln_dtype dtype;
} formats[] = {{"e4m3", KILN_E4M3}, {"e5m2", KILN_E5M2}, {"e2m1", KILN_E2M1}, {"e5m6", KILN_E5M6}};

static void test_encode(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
    char name[64], line[256];
    size_t lines = 0;
    FILE *file;
    (void)snprintf(name, sizeof name, "f32_to_%s", formats[i].name);
    file = open_vectors(name);
    while (fgets(line, sizeof line, file)) {
      unsigned bits, code;
      assert_int_equal(sscanf(line, "%x,%x", &bits, &code), 2);
      if (kn_oracle_encode(formats[i].dtype, float_of(bits)) != code) {
        fail_msg("%s of %08x is %u, want %u", formats[i].name, bits,
                 kn_oracle_encode(formats[i].dtype, float_of(bits)), code);
      }
      ++lines;
    }
    assert_true(lines > 100);
    (void)fclose(file);
  }
}

static void test_decode(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
    char name[64], line[256];
    size_t lines = 0;
    FILE *file;
    (void)snprintf(name, sizeof name, "%s_decode", formats[i].name);
    file = open_vectors(name);
    while (fgets(line, sizeof line, file)) {
      unsigned bits = 0x7FC00000, code;
      float is, want;
      const int fields = sscanf(line, "%x,%x", &code, &bits);
      assert_true(fields == 2 || (fields == 1 && strstr(line, ",nan")));
      is = kn_oracle_decode(formats[i].dtype, code);
      want = float_of(bits);
      if (isnan(want) ? !isnan(is) : bits_of(is) != bits) {
        fail_msg("%s %u is %08x, want %08x", formats[i].name, code, bits_of(is), bits);
      }
      ++lines;
    }
    assert_true(lines >= 16);
    (void)fclose(file);
  }
}

static void test_scale(void **state) {
  char line[256];
  size_t lines = 0;
  FILE *file = open_vectors("sf");
  (void)state;
  while (fgets(line, sizeof line, file)) {
    char name[8];
    unsigned amax, sf, inv, rounded, rounded_inv;
    int byte;
    assert_int_equal(sscanf(line, "%7[^,],%x,%x,%x,%x,%x,%d", name, &amax, &sf, &inv, &rounded,
                            &rounded_inv, &byte),
                     7);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
      struct kn_oracle_scale exact, power;
      if (strcmp(name, formats[i].name) != 0) continue;
      exact = kn_oracle_scale(formats[i].dtype, float_of(amax), false, -1);
      power = kn_oracle_scale(formats[i].dtype, float_of(amax), true, -1);
      assert_int_equal(bits_of(exact.sf), sf);
      assert_int_equal(bits_of(exact.sf_inv), inv);
      assert_int_equal(exact.ue8m0, -1);
      assert_int_equal(bits_of(power.sf), rounded);
      assert_int_equal(bits_of(power.sf_inv), rounded_inv);
      assert_int_equal(power.ue8m0, byte);
      ++lines;
    }
  }
  assert_true(lines > 100);
  (void)fclose(file);
}

/* Contract 0: decoding of the ends. */
static void test_ue8m0(void **state) {
  (void)state;
  assert_int_equal(bits_of(kn_oracle_decode(KILN_UE8M0, 0)), 0x00400000);
  assert_int_equal(bits_of(kn_oracle_decode(KILN_UE8M0, 127)), 0x3F800000);
  assert_int_equal(bits_of(kn_oracle_decode(KILN_UE8M0, 254)), 0x7F000000);
  assert_true(isnan(kn_oracle_decode(KILN_UE8M0, 255)));
}

/* ---- chains ---- */

static struct kn_oracle_tensor tensor(const char *name, kiln_role role, void *data, size_t bytes,
                                      kiln_dtype dtype, int64_t rows, int64_t cols) {
  const int64_t shape[2] = {rows, cols};
  struct kn_oracle_tensor t = {name, true, role, kiln_tensor_make(data, dtype, 2, shape)};
  t.tensor.size_bytes = bytes;
  return t;
}

static struct kn_oracle_case chain_case(const char *chain, struct kn_oracle_tensor *tensors) {
  return (struct kn_oracle_case){
      .op = "test", .chain = chain, .tensors = tensors, .num_tensors = 3};
}

static void check_equal(const struct kn_oracle_case *c) {
  struct kn_oracle_report report;
  assert_int_equal(kn_oracle_check(c, 0xA5, &report), KILN_OK);
  assert_string_equal(report.first, "");
  assert_int_equal(report.failed, 0);
  assert_true(report.compared > 0);
}

static void check_differs(const struct kn_oracle_case *c, uint64_t count, const char *first) {
  struct kn_oracle_report report;
  assert_int_equal(kn_oracle_check(c, 0xA5, &report), KILN_OK);
  assert_string_equal(report.first, first);
  assert_int_equal(report.failed, count);
}

/* One row of 448, a NaN and small values: sf 1, so that codes are those of the values. */
static void test_cast(void **state) {
  float x[4] = {448, NAN, -1, 0.0625f};
  uint8_t out[4];
  float sf[1];
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 1, 4),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_E4M3, 1, 4),
                                  tensor("out_sf", KILN_OUT, sf, sizeof sf, KILN_F32, 1, 1)};
  struct kn_oracle_case c = chain_case(
      "load x\nquantize to=e4m3 rows=1 cols=4 round_sf=0 layout=row_major\n"
      "store data=out sf=out_sf\n",
      t);
  (void)state;
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_float_equal(sf[0], 1, 0);
  assert_int_equal(out[0], 0x7E);
  assert_int_equal(out[1], 0x7F);
  assert_int_equal(out[2], 0xB8);
  assert_int_equal(out[3], 0x18);
  check_equal(&c);
  out[2] = 0xB9;
  check_differs(&c, 1, "out[0, 2]: 0xb9, want 0xb8");
}

/* A NaN marks the block's scale in e2m1; two codes share a byte, the even one low. */
static void test_e2m1(void **state) {
  float x[4] = {6, NAN, -0.0f, -2};
  uint8_t out[2];
  uint32_t sf[1];
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 1, 4),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_E2M1, 1, 4),
                                  tensor("out_sf", KILN_OUT, sf, sizeof sf, KILN_F32, 1, 1)};
  struct kn_oracle_case c = chain_case(
      "load x\nquantize to=e2m1 rows=1 cols=4 round_sf=0 layout=row_major\n"
      "store data=out sf=out_sf\n",
      t);
  (void)state;
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_int_equal(sf[0], 0x7FC00000);
  assert_int_equal(out[0], 0x77);
  assert_int_equal(out[1], 0xC8);
}

/* w0 = h0<<20 | h1<<8 | h2>>4, w1 = h2<<28 | h3<<16 | h4<<4 | h5>>8, w2 = h5<<24 | h6<<12 | h7. */
static void test_e5m6(void **state) {
  float x[8] = {65024, 1, 2, -1, 0.5f, 1.5f, 3, 4};
  uint32_t out[3], h[8], sf[1];
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 1, 8),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_E5M6, 1, 8),
                                  tensor("out_sf", KILN_OUT, sf, sizeof sf, KILN_F32, 1, 1)};
  struct kn_oracle_case c = chain_case(
      "load x\nquantize to=e5m6 rows=1 cols=8 round_sf=0 layout=row_major\n"
      "store data=out sf=out_sf\n",
      t);
  (void)state;
  for (int i = 0; i < 8; ++i) h[i] = kn_oracle_encode(KILN_E5M6, x[i]);
  assert_int_equal(h[1], 15 << 6);
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_int_equal(sf[0], 0x3F800000);
  assert_int_equal(out[0], h[0] << 20 | h[1] << 8 | h[2] >> 4);
  assert_int_equal(out[1], h[2] << 28 | h[3] << 16 | h[4] << 4 | h[5] >> 8);
  assert_int_equal(out[2], h[5] << 24 | h[6] << 12 | h[7]);
}

/* Packed scales: byte c%4 of word (c/4)*ld + r; padding and unused bytes 0, with a larger ld the
   padding is left alone. */
static void check_packed(int64_t ld, uint32_t padding) {
  float x[10];
  uint8_t out[10];
  uint32_t sf[16];
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 2, 5),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_E4M3, 2, 5),
                                  tensor("out_sf", KILN_OUT, sf, (size_t)ld * 8, KILN_I32, 2, 2)};
  struct kn_oracle_case c = chain_case(
      "load x\nquantize to=e4m3 rows=1 cols=1 round_sf=1 layout=packed_ue8m0\n"
      "store data=out sf=out_sf\n",
      t);
  for (int i = 0; i < 10; ++i) x[i] = ldexpf(448, i); /* sf = 2^i: byte 127 + i */
  t[2].tensor.strides[0] = 1;
  t[2].tensor.strides[1] = ld;
  memset(sf, 0xA5, sizeof sf);
  memset(out, 0xA5, sizeof out);
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_int_equal(sf[0], 0x8281807F);
  assert_int_equal(sf[1], 0x87868584);
  assert_int_equal(sf[ld], 0x83);
  assert_int_equal(sf[ld + 1], 0x88);
  assert_int_equal(sf[2], padding);
  assert_int_equal(sf[ld + 3], padding);
  check_equal(&c);
  sf[3] ^= 0x10000;
  check_differs(&c, 1,
                padding ? "out_sf, byte 14 outside of the matrix: 0xa4, want 0xa5"
                        : "out_sf, byte 14 outside of the matrix: 0x1, want 0x0");
}

static void test_packed(void **state) {
  (void)state;
  check_packed(4, 0);
  check_packed(8, 0xA5A5A5A5);
}

/* Blocks of two rows over three: the last is shorter. Transposed into rows with a gap. */
static void test_transposed(void **state) {
  float x[6] = {448, 1, 2, 896, 224, 3}, sf[4];
  uint8_t out[8];
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 3, 2),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_E4M3, 2, 3),
                                  tensor("out_sf", KILN_OUT, sf, sizeof sf, KILN_F32, 2, 2)};
  struct kn_oracle_case c = chain_case(
      "load x\nquantize to=e4m3 rows=2 cols=1 round_sf=1 layout=row_major\ntranspose\n"
      "store data=out sf=out_sf\n",
      t);
  (void)state;
  t[1].tensor.strides[0] = 4;
  memset(out, 0xA5, sizeof out);
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_float_equal(sf[0], 1, 0);
  assert_float_equal(sf[1], 2, 0);
  assert_float_equal(sf[2], 0.5, 0);
  assert_float_equal(sf[3], 0x1p-7, 0); /* 3/448 rounded up */
  assert_int_equal(out[0], 0x7E);
  assert_int_equal(out[1], 0x40);
  assert_int_equal(out[2], 0x7E);
  assert_int_equal(out[3], 0xA5);
  assert_int_equal(out[4], 0x30); /* 1/2 */
  assert_int_equal(out[5], 0x7E);
  assert_int_equal(out[6], 0x7C); /* 384 */
  check_equal(&c);
  out[3] = 0;
  check_differs(&c, 1, "out, byte 3 outside of the matrix: 0x0, want 0xa5");
}

/* silu(-inf) = 0, NaN stays; clamped, 1/(1+exp(-1))*1 = 0.731 -> bf16 0.73046875. */
static void test_swiglu(void **state) {
  static const struct kn_oracle_scalar clamp = {"c", true, 1};
  float x[6] = {-INFINITY, NAN, 5, 1, 1, 7}, sf[3];
  uint8_t out[3];
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 1, 6),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_E4M3, 1, 3),
                                  tensor("out_sf", KILN_OUT, sf, sizeof sf, KILN_F32, 1, 3)};
  struct kn_oracle_case c = chain_case(
      "load x\nswiglu clamp=c\nround to=bf16\n"
      "quantize to=e4m3 rows=1 cols=1 round_sf=0 layout=row_major\nstore data=out sf=out_sf\n",
      t);
  (void)state;
  c.scalars = &clamp;
  c.num_scalars = 1;
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_int_equal(out[0], 0);
  assert_int_equal(out[1], 0x7F);
  assert_int_equal(out[2], 0x7E);
  assert_int_equal(bits_of(sf[2]), bits_of(0.73046875f / 448));
  check_equal(&c);
  sf[2] = float_of(bits_of(sf[2]) + 4); /* within the tolerance */
  check_equal(&c);
  out[2] = 0x7D;
  check_differs(&c, 1, "out[0, 2]: 0x7d, want 0x7e");
  out[2] = 0x7E;
  sf[2] = float_of(bits_of(sf[2]) + 1);
  check_differs(&c, 1, "out_sf[0, 2]: 0x3ad5b6e0, want 0x3ad5b6db");
}

static void test_copies(void **state) {
  uint16_t x[8] = {1, 2, 3, 99, 4, 5, 6, 99}, out[6];
  struct kn_oracle_tensor t[2] = {tensor("x", KILN_IN, x, sizeof x, KILN_BF16, 2, 3),
                                  tensor("out", KILN_OUT, out, sizeof out, KILN_BF16, 3, 2)};
  struct kn_oracle_case c = {.op = "transpose", .chain = "", .tensors = t, .num_tensors = 2};
  static const uint16_t want[6] = {1, 4, 2, 5, 3, 6};
  (void)state;
  t[0].tensor.strides[0] = 4;
  assert_int_equal(kn_oracle_run(&c), KILN_OK);
  assert_memory_equal(out, want, sizeof want);
  t[1].tensor.shape[0] = 2;
  assert_int_equal(kn_oracle_run(&c), KILN_E_ARGUMENT);
  c.op = "nothing";
  assert_int_equal(kn_oracle_run(&c), KILN_E_UNSUPPORTED);
}

static void test_unknown(void **state) {
  float x[1] = {1};
  struct kn_oracle_tensor t[3] = {tensor("x", KILN_IN, x, sizeof x, KILN_F32, 1, 1),
                                  tensor("out", KILN_OUT, x, sizeof x, KILN_E4M3, 1, 1),
                                  tensor("out_sf", KILN_OUT, x, sizeof x, KILN_F32, 1, 1)};
  struct kn_oracle_case c = chain_case("load x\nfrobnicate\n", t);
  (void)state;
  assert_int_equal(kn_oracle_run(&c), KILN_E_UNSUPPORTED);
  c.chain = "load y\n";
  assert_int_equal(kn_oracle_run(&c), KILN_E_ARGUMENT);
  c.chain = "load x\nswiglu clamp=c\n";
  assert_int_equal(kn_oracle_run(&c), KILN_E_ARGUMENT);
}

/* The same data for the same seed, other data for another; edges are there. */
static void test_fill(void **state) {
  enum { ROWS = 512, COLS = 640 };
  static float a[ROWS * COLS], b[ROWS * COLS];
  const int64_t shape[2] = {ROWS, COLS};
  kiln_tensor t = kiln_tensor_make(a, KILN_F32, 2, shape), u = t;
  size_t nans = 0, infinities = 0, zeros = 0, subnormals = 0;
  (void)state;
  u.data = b;
  kn_oracle_fill(&t, KN_FILL_EDGES, 1);
  kn_oracle_fill(&u, KN_FILL_EDGES, 1);
  assert_memory_equal(a, b, sizeof a);
  kn_oracle_fill(&u, KN_FILL_EDGES, 2);
  assert_memory_not_equal(a, b, sizeof a);
  for (size_t i = 0; i < ROWS * COLS; ++i) {
    nans += isnan(a[i]) != 0;
    infinities += isinf(a[i]) != 0;
    zeros += a[i] == 0;
    subnormals += fpclassify(a[i]) == FP_SUBNORMAL;
  }
  assert_true(nans > 100 && infinities > 100 && zeros > 100 && subnormals > 100);
  kn_oracle_fill(&t, KN_FILL_NORMAL, 1);
  for (size_t i = 0; i < ROWS * COLS; ++i) assert_true(isfinite(a[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_encode),     cmocka_unit_test(test_decode),
      cmocka_unit_test(test_scale),      cmocka_unit_test(test_ue8m0),
      cmocka_unit_test(test_cast),       cmocka_unit_test(test_e2m1),
      cmocka_unit_test(test_e5m6),       cmocka_unit_test(test_packed),
      cmocka_unit_test(test_transposed), cmocka_unit_test(test_swiglu),
      cmocka_unit_test(test_copies),     cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_fill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
