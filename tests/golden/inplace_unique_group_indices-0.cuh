#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using index_dtype_t = i64;
constexpr i64 NUM_GROUPS = 8;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_ERROR = false;
using group_indices_t = i64;
constexpr int GROUP_INDICES_RANK = 2;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_tokens;
  group_indices_t* group_indices;
  error_t* error;
};
static_assert(sizeof(kiln_args) == 24, "host and device agree on kiln_args");
}  // namespace kiln
