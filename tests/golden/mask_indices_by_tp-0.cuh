#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using index_dtype_t = i64;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_ERROR = false;
using indices_t = i64;
constexpr int INDICES_RANK = 2;
using masked_indices_t = i64;
constexpr int MASKED_INDICES_RANK = 2;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_tokens;
  const indices_t* indices;
  masked_indices_t* masked_indices;
  error_t* error;
  alignas(8) i32 n;
  alignas(8) i32 num_ep_ranks;
  alignas(8) i32 num_tp_ranks;
  alignas(8) i32 tp_rank;
};
static_assert(sizeof(kiln_args) == 64, "host and device agree on kiln_args");
}  // namespace kiln
