#include "backend/cpu/gathered.hpp"

#include <algorithm>
#include <utility>

#include "core/parallel.hpp"
#include "crema/tensor.hpp"

namespace crema {
namespace {

/// Scratch memory of the calling thread, shared by all these primitives. `count`: elements.
float* gathered_scratch(int64_t count) {
  thread_local Tensor scratch{Shape{0}};
  if (scratch.count() < count) scratch = Tensor(Shape{count});
  return scratch.overwrite<float>();
}

/// The positions of the pixels that are read. In every format, memory consists of planes, a plane
/// of rows, and a row of pixels of `unit` adjacent channels. unit is 1 if contiguous, C if
/// channels-last, else the size of a block.
class Pixels {
 public:
  explicit Pixels(const ConvolutionProblem& p)
      : unit_(p.source_format == Format::channels_last ? p.source[1] : block_of(p.source_format)),
        planes_(p.source[0] * ((p.source[1] + unit_ - 1) / unit_)),
        columns_(p.target[-1]),
        source_columns_(p.source[-1]),
        step_(p.stride.back()) {
    const int64_t rows = p.source.count(2) / source_columns_;
    for (int64_t row = 0; row < rows; ++row) read_as_.push_back(gathered_row(p, row));
    rows_ = p.target.count(2) / columns_;
  }

  int64_t count() const { return planes_ * rows_ * columns_ * unit_; }

  void gather(const float* from, float* to) const {
    each_row([=, this](int64_t in_source, int64_t in_gathered) {
      if (in_gathered < 0) return;
      const float* const source = from + in_source;
      float* const gathered = to + in_gathered;
      each_pixel([=](int64_t unit, int64_t at, int64_t place) {
        std::copy_n(source + at, unit, gathered + place);
      });
    });
  }

  /// Sets pixels that are not read to 0.
  void scatter(const float* from, float* to) const {
    each_row([=, this](int64_t in_source, int64_t in_gathered) {
      float* const source = to + in_source;
      std::fill_n(source, source_columns_ * unit_, 0.0F);
      if (in_gathered < 0) return;
      const float* const gathered = from + in_gathered;
      each_pixel([=](int64_t unit, int64_t at, int64_t place) {
        std::copy_n(gathered + place, unit, source + at);
      });
    });
  }

 private:
  /// The index of the gathered row for a row of the source; -1 if the row is not read.
  static int64_t gathered_row(const ConvolutionProblem& p, int64_t row) {
    int64_t gathered = 0, pitch = 1;
    for (int axis = p.source.rank() - 2; axis >= 2; --axis) {
      const int64_t place = row % p.source[axis], stride = p.stride[static_cast<size_t>(axis - 2)];
      if (place % stride != 0) return -1;
      gathered += place / stride * pitch;
      row /= p.source[axis];
      pitch *= p.target[axis];
    }
    return gathered;
  }

  /// Calls visit(offset of a row in the source, offset of the gathered row or -1).
  template <class Visit>
  void each_row(const Visit& visit) const {
    const auto source_rows = static_cast<int64_t>(read_as_.size());
    parallel_for(planes_ * source_rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t row = read_as_[static_cast<size_t>(at % source_rows)];
        visit(at * source_columns_ * unit_,
              row < 0 ? -1 : (at / source_rows * rows_ + row) * columns_ * unit_);
      }
    });
  }

  /// Calls visit(unit, offset of a pixel in the source row, offset in the gathered row). The common
  /// values of unit are compile-time constants.
  template <class Visit>
  void each_pixel(const Visit& visit) const {
    const auto run = [&](auto unit) {
      for (int64_t c = 0; c < columns_; ++c) visit(unit, c * step_ * unit, c * unit);
    };
    switch (unit_) {
      case 1:
        return run(std::integral_constant<int64_t, 1>());
      case 8:
        return run(std::integral_constant<int64_t, 8>());
      case 16:
        return run(std::integral_constant<int64_t, 16>());
      default:
        return run(unit_);
    }
  }

  int64_t unit_, planes_, rows_ = 0, columns_, source_columns_, step_;
  std::vector<int64_t> read_as_;  // gathered_row() of each row of the source
};

class Gathered : public ConvolutionPrimitive {
 public:
  Gathered(const ConvolutionProblem& problem, std::unique_ptr<ConvolutionPrimitive> dense)
      : pixels_(problem), dense_(std::move(dense)) {}

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    dense_->forward(gathered(x), weights, bias, y);
  }

  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    float* const scratch = gathered_scratch(pixels_.count());
    dense_->backward_data(dy, weights, scratch);
    pixels_.scatter(scratch, dx);
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    dense_->backward_weights(gathered(x), dy, add_weights, dweights, add_bias, dbias);
  }

  size_t kept_bytes() const override { return dense_->kept_bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    plan.need("gathered pixels", static_cast<size_t>(pixels_.count()) * sizeof(float));
    dense_->plan_scratch(plan);
  }

 private:
  const float* gathered(const float* x) const {
    float* const scratch = gathered_scratch(pixels_.count());
    pixels_.gather(x, scratch);
    return scratch;
  }

  Pixels pixels_;
  std::unique_ptr<ConvolutionPrimitive> dense_;
};

}  // namespace

std::optional<ConvolutionProblem> gathered_problem(const ConvolutionProblem& problem) {
  const auto each = [](const std::vector<int64_t>& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v == wanted; });
  };
  if (problem.kernel.empty() || !each(problem.kernel, 1) || !each(problem.pad, 0) ||
      each(problem.stride, 1)) {
    return std::nullopt;
  }
  ConvolutionProblem dense = problem;
  std::vector<int64_t> dims = problem.target.dims();
  dims[1] = problem.source[1];
  dense.source = Shape(std::move(dims));
  std::fill(dense.stride.begin(), dense.stride.end(), 1);
  return dense;
}

std::unique_ptr<ConvolutionPrimitive> with_gathered_pixels(
    const ConvolutionProblem& problem, std::unique_ptr<ConvolutionPrimitive> dense) {
  return std::make_unique<Gathered>(problem, std::move(dense));
}

}  // namespace crema
