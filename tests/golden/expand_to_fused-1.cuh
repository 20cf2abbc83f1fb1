#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 HIDDEN = 7168;
using dtype_t = e4m3;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_ERROR = false;
using x_t = e4m3;
constexpr int X_RANK = 2;
using token_topk_to_pos_t = i32;
constexpr int TOKEN_TOPK_TO_POS_RANK = 2;
using pos_to_expert_t = i32;
constexpr int POS_TO_EXPERT_RANK = 1;
using expanded_x_t = e4m3;
constexpr int EXPANDED_X_RANK = 2;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_tokens;
  i64 num_expanded_tokens;
  const x_t* x;
  i64 x_stride0;
  const token_topk_to_pos_t* token_topk_to_pos;
  const pos_to_expert_t* pos_to_expert;
  expanded_x_t* expanded_x;
  error_t* error;
};
static_assert(sizeof(kiln_args) == 64, "host and device agree on kiln_args");
}  // namespace kiln
