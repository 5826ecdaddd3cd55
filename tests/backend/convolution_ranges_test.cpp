// Convolutions whose results are ranges of the images of a wider tensor give the bits of those
// whose images lie one behind the other, and touch nothing beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/convolution.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"
#include "layers/convolution/engine.hpp"

namespace crema {
namespace {

std::vector<float> random_values(int64_t count, uint64_t stream) {
  Random random(5, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

/// Memory of tensors, which is aligned.
Tensor tensor_of(const std::vector<float>& values) {
  Tensor tensor(Shape{static_cast<int64_t>(values.size())});
  std::ranges::copy(values, tensor.overwrite<float>());
  return tensor;
}

struct Operands {
  Tensor x, w, bias, dy;

  explicit Operands(const ConvolutionProblem& p)
      : x(tensor_of(random_values(storage_count(p.source, p.source_format), 1))),
        w(tensor_of(random_values(p.weights().count(), 2))),
        bias(tensor_of(random_values(p.target[1], 3))),
        dy(tensor_of(random_values(storage_count(p.target, p.target_format), 4))) {}
};

constexpr float kBeside = 77;

/// A range in the middle of the images of a wider tensor.
class Range {
 public:
  Range(const ConvolutionProblem& p, int64_t image, int64_t begin)
      : images_(p.target[0]),
        own_(storage_count(p.target, p.target_format) / images_),
        image_(image),
        begin_(begin),
        whole_(tensor_of(std::vector<float>(static_cast<size_t>(images_ * image), kBeside))) {}

  float* at() { return whole_.change<float>() + begin_; }
  void take(const Tensor& dense) {
    for (int64_t n = 0; n < images_; ++n)
      std::copy_n(dense.read<float>() + n * own_, own_, at() + n * image_);
  }
  std::vector<float> dense() const {
    std::vector<float> values;
    for (int64_t n = 0; n < images_; ++n) {
      const float* const from = whole_.read<float>() + begin_ + n * image_;
      values.insert(values.end(), from, from + own_);
    }
    return values;
  }
  bool is_clean_beside() const {
    for (int64_t i = 0; i < images_ * image_; ++i) {
      const int64_t within = i % image_;
      const bool is_own = within >= begin_ && within < begin_ + own_;
      if (!is_own && whole_.read<float>()[i] != kBeside) return false;
    }
    return true;
  }

 private:
  int64_t images_, own_, image_, begin_;
  Tensor whole_;
};

std::vector<float> list(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

/// Compares one implementation with itself.
void check(const ConvolutionLibrary& library, const ConvolutionProblem& dense,
           const ConvolutionProblem& ranged, ConvolutionPass pass, const std::string& name) {
  const Operands o(dense);
  const auto one = library.make(dense, pass, name), other = library.make(ranged, pass, name);
  const ConvolutionWeights weights{o.w.read<float>(), nullptr};
  const int64_t before = ranged.target_image / 4;
  Range range(dense, ranged.target_image, before);
  if (pass == ConvolutionPass::forward) {
    Tensor y(Shape{o.dy.count()});
    one->forward(o.x.read<float>(), weights, o.bias.read<float>(), y.change<float>());
    other->forward(o.x.read<float>(), weights, o.bias.read<float>(), range.at());
    EXPECT_EQ(range.dense(), list(y));
    EXPECT_TRUE(range.is_clean_beside());
    return;
  }
  range.take(o.dy);
  const bool data = pass == ConvolutionPass::backward_data;
  Tensor results[2], biases[2];
  for (int i = 0; i < 2; ++i) {
    Tensor &result = results[i], &bias = biases[i];
    result = Tensor(Shape{data ? o.x.count() : o.w.count()});
    bias = Tensor(Shape{o.bias.count()});
    const float* const dy = i == 0 ? o.dy.read<float>() : range.at();
    const auto& primitive = i == 0 ? one : other;
    if (data) {
      primitive->backward_data(dy, weights, result.change<float>());
    } else {
      primitive->backward_weights(o.x.read<float>(), dy, false, result.change<float>(), false,
                                  bias.change<float>());
    }
  }
  EXPECT_EQ(list(results[1]), list(results[0]));
  EXPECT_EQ(list(biases[1]), list(biases[0]));
}

TEST(ConvolutionRanges, GiveTheSameBits) {
  const Format blocked = simd_level() == SimdLevel::avx512 ? Format::blocked16 : Format::blocked8;
  std::set<std::string> checked;
  for (const auto& [kernel, stride, groups] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 1, 1}, {5, 1, 1}, {3, 2, 1}, {1, 2, 1}, {3, 1, 2}}) {
    for (const Format format : {Format::contiguous, blocked}) {
      ConvolutionProblem dense{.source = Shape{3, 32, 9, 10},
                               .kernel = {kernel, kernel},
                               .stride = {stride, stride},
                               .pad = {kernel / 2, kernel / 2},
                               .dilation = {1, 1},
                               .groups = groups,
                               .source_format = format,
                               .target_format = format,
                               .relu = 0.25F};
      dense.target = Shape{3, 32, (9 - 1) / stride + 1, (10 - 1) / stride + 1};
      ConvolutionProblem ranged = dense;
      ranged.target_image = dense.target.count(1) * 4;  // of 128 channels
      for (const ConvolutionPass pass : {ConvolutionPass::forward, ConvolutionPass::backward_data,
                                         ConvolutionPass::backward_weights}) {
        for (const ConvolutionLibrary* library : convolution_libraries()) {
          std::string why;
          const auto find = [&](const ConvolutionProblem& problem) {
            return library->implementations(problem, pass, ConvolutionAlgorithm::any, why);
          };
          for (const std::string& name : find(dense)) {
            SCOPED_TRACE(text(library->name(), " ", name, " ", dense.key(), " ", to_string(pass)));
            const auto in_ranges = find(ranged);
            if (std::ranges::find(in_ranges, name) == in_ranges.end()) continue;
            check(*library, dense, ranged, pass, name);
            checked.insert(library->name());
          }
        }
      }
    }
  }
  EXPECT_TRUE(checked.contains("im2col"));
  if (simd_level() >= SimdLevel::avx2) {
    EXPECT_TRUE(checked.contains("direct"));
    EXPECT_TRUE(checked.contains("winograd"));
  }
  // Of these there are plain loops alone.
  EXPECT_FALSE(checked.contains("onednn"));
}

}  // namespace
}  // namespace crema
