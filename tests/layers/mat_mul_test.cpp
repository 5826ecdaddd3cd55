// Values: the cases mat_mul* of tests/golden/torch.
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string layer(bool transpose_a, bool transpose_b) {
  return std::string("layer { type: 'MatMul' matmul_param { scale: -0.5 transpose_a: ") +
         (transpose_a ? "true" : "false") + " transpose_b: " + (transpose_b ? "true" : "false") +
         " } }";
}

TEST(MatMul, GradientsAndEngines) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      SCOPED_TRACE(layer(a, b));
      const auto sizes = [](bool transposed, int64_t rows, int64_t columns) {
        return transposed ? Shape{columns, rows} : Shape{rows, columns};
      };
      const auto batched = [](const Shape& matrix) { return Shape{2, 3, matrix[0], matrix[1]}; };
      const Shape left = sizes(a, 4, 5), right = sizes(b, 5, 3);
      const LayerCase plain{.layer = layer(a, b), .bottoms = {uniform(left), uniform(right)}};
      const LayerCase batch{.layer = layer(a, b),
                            .bottoms = {uniform(batched(left)), uniform(batched(right))}};
      const LayerCase shared{.layer = layer(a, b),
                             .bottoms = {uniform(batched(left)), uniform(right)}};
      for (const LayerCase& c : {plain, batch, shared}) {
        check_gradients(c);
        check_engines(c);
      }
    }
  }
}

TEST(MatMul, EmptyBatches) {
  for (const Shape& right : {Shape{0, 4, 5}, Shape{4, 5}}) {
    LayerRun run(
        {.layer = "layer { type: 'MatMul' }", .bottoms = {uniform({0, 3, 4}), uniform(right)}});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 3, 5}));
    for (const double d : run.bottom_diff(1)) EXPECT_EQ(d, 0);
  }
}

TEST(MatMul, ShapesThatDoNotFit) {
  const auto refuses = [](const Shape& a, const Shape& b,
                          std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun({.layer = "layer { type: 'MatMul' }", .bottoms = {uniform(a), uniform(b)}});
        },
        parts);
  };
  refuses({3, 4}, {3, 4}, {"3 x 4", "cannot be multiplied", "transpose_b"});
  refuses({2, 3, 4}, {3, 4, 5}, {"2x3x4", "3x4x5", "before the last two"});
  refuses({4}, {4, 5}, {"bottom0", "last two axes"});
}

}  // namespace
}  // namespace crema::test
