#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using x_t = u8;
constexpr int X_RANK = 1;
using out_t = u8;
constexpr int OUT_RANK = 1;
struct kiln_args {
  i64 num_bytes;
  const x_t* x;
  out_t* out;
};
static_assert(sizeof(kiln_args) == 24, "host and device agree on kiln_args");
}  // namespace kiln
