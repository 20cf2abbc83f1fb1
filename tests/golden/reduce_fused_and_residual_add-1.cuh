#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 HIDDEN = 7168;
using dtype_t = bf16;
using residual_dtype_t = f32;
using out_dtype_t = f32;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_TOPK_WEIGHTS = true;
constexpr bool HAS_X_SF = false;
constexpr bool HAS_SF = false;
constexpr bool HAS_ERROR = false;
using x_t = bf16;
constexpr int X_RANK = 2;
using token_topk_to_pos_t = i32;
constexpr int TOKEN_TOPK_TO_POS_RANK = 2;
using residual_t = f32;
constexpr int RESIDUAL_RANK = 2;
using topk_weights_t = f32;
constexpr int TOPK_WEIGHTS_RANK = 2;
using x_sf_t = f32;
constexpr int X_SF_RANK = 1;
using sf_t = f32;
constexpr int SF_RANK = 1;
using out_t = f32;
constexpr int OUT_RANK = 2;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_expanded_tokens;
  i64 num_tokens;
  const x_t* x;
  i64 x_stride0;
  const token_topk_to_pos_t* token_topk_to_pos;
  const residual_t* residual;
  i64 residual_stride0;
  const topk_weights_t* topk_weights;
  const x_sf_t* x_sf;
  const sf_t* sf;
  out_t* out;
  error_t* error;
};
static_assert(sizeof(kiln_args) == 96, "host and device agree on kiln_args");
}  // namespace kiln
