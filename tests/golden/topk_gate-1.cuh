#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
using score_dtype_t = f32;
using index_dtype_t = i64;
constexpr i64 NUM_EXPERTS = 2048;
constexpr i64 NUM_TOPK = 32;
using scores_t = f32;
constexpr int SCORES_RANK = 2;
using topk_idx_t = i64;
constexpr int TOPK_IDX_RANK = 2;
struct kiln_args {
  i64 num_tokens;
  const scores_t* scores;
  topk_idx_t* topk_idx;
};
static_assert(sizeof(kiln_args) == 24, "host and device agree on kiln_args");
}  // namespace kiln
