#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using dtype_t = f32;
using x_t = f32;
constexpr int X_RANK = 2;
using out_t = f32;
constexpr int OUT_RANK = 2;
struct kiln_args {
  i64 num_rows;
  i64 num_cols;
  const x_t* x;
  i64 x_stride0;
  out_t* out;
};
static_assert(sizeof(kiln_args) == 40, "host and device agree on kiln_args");
}  // namespace kiln
