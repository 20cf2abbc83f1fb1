#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using index_dtype_t = i64;
constexpr i64 NUM_EXPERTS = 256;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_ERROR = false;
using topk_idx_t = i64;
constexpr int TOPK_IDX_RANK = 2;
using out_t = f32;
constexpr int OUT_RANK = 1;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_tokens;
  const topk_idx_t* topk_idx;
  out_t* out;
  error_t* error;
  alignas(8) i32 num_aux_topk;
  u8* workspace;
};
static_assert(sizeof(kiln_args) == 48, "host and device agree on kiln_args");
}  // namespace kiln
