#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using index_dtype_t = i64;
constexpr i64 NUM_GROUPS = 256;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_ERROR = false;
using group_idx_t = i64;
constexpr int GROUP_IDX_RANK = 2;
using out_t = i32;
constexpr int OUT_RANK = 1;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_tokens;
  const group_idx_t* group_idx;
  out_t* out;
  error_t* error;
};
static_assert(sizeof(kiln_args) == 32, "host and device agree on kiln_args");
}  // namespace kiln
