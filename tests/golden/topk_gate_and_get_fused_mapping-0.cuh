#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using score_dtype_t = f32;
using index_dtype_t = i64;
constexpr i64 NUM_EXPERTS = 256;
constexpr i64 NUM_TOPK = 8;
constexpr bool HAS_ERROR = false;
using scores_t = f32;
constexpr int SCORES_RANK = 2;
using topk_idx_t = i64;
constexpr int TOPK_IDX_RANK = 2;
using pos_to_expert_t = i32;
constexpr int POS_TO_EXPERT_RANK = 1;
using pos_to_token_t = i32;
constexpr int POS_TO_TOKEN_RANK = 1;
using pos_to_token_topk_t = i32;
constexpr int POS_TO_TOKEN_TOPK_RANK = 1;
using token_topk_to_pos_t = i32;
constexpr int TOKEN_TOPK_TO_POS_RANK = 2;
using expert_start_t = i32;
constexpr int EXPERT_START_RANK = 1;
using expert_end_t = i32;
constexpr int EXPERT_END_RANK = 1;
using num_tokens_per_expert_t = i32;
constexpr int NUM_TOKENS_PER_EXPERT_RANK = 1;
using error_t = i32;
constexpr int ERROR_RANK = 1;
struct kiln_args {
  i64 num_tokens;
  i64 num_expanded_tokens;
  const scores_t* scores;
  topk_idx_t* topk_idx;
  pos_to_expert_t* pos_to_expert;
  pos_to_token_t* pos_to_token;
  pos_to_token_topk_t* pos_to_token_topk;
  token_topk_to_pos_t* token_topk_to_pos;
  expert_start_t* expert_start;
  expert_end_t* expert_end;
  num_tokens_per_expert_t* num_tokens_per_expert;
  error_t* error;
  alignas(8) i32 alignment;
};
static_assert(sizeof(kiln_args) == 104, "host and device agree on kiln_args");
}  // namespace kiln
