#line 1 "kiln/generated"
namespace kiln {
constexpr int TARGET = 90;
constexpr i64 NUM_TOPK = 8;
using topk_weights_t = f32;
constexpr int TOPK_WEIGHTS_RANK = 2;
using denominator_t = f32;
constexpr int DENOMINATOR_RANK = 1;
using normalized_weights_t = f32;
constexpr int NORMALIZED_WEIGHTS_RANK = 2;
struct kiln_args {
  i64 num_tokens;
  const topk_weights_t* topk_weights;
  denominator_t* denominator;
  normalized_weights_t* normalized_weights;
};
static_assert(sizeof(kiln_args) == 32, "host and device agree on kiln_args");
}  // namespace kiln
