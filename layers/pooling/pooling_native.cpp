#include "layers/pooling/pooling_native.hpp"

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "crema/scratch_plan.hpp"
#include "kit/options.hpp"
#include "kit/pointwise.hpp"
#include "layers/pooling/pooling.hpp"

namespace crema {
namespace {

constexpr int64_t kCellsOfByte = 255;  // one value is kNone
/// Inputs that are worth a thread.
constexpr int64_t kThreadInputs = 8192;

/// y through ReLU; where it holds y back, no input gets a gradient. choice may be null.
template <class Choice>
[[gnu::always_inline]] inline void rectify_outputs(float* y, Choice* choice, int64_t n) {
  if (choice) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) choice[i] = y[i] > 0 ? choice[i] : kNone<Choice>;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] < 0 ? 0 : y[i];
}

}  // namespace

std::vector<Option> PoolingNative::layouts(const PoolingLayer& pooling, Blobs bottom, Blobs top,
                                           std::string& why) {
  if (pooling.method() == PoolingLayer::Method::stochastic) {
    why = "it has no stochastic pooling";
  } else if (top.size() > 1) {
    why = "it has no second top";
  } else if (pooling.windows().y.has_empty() || pooling.windows().x.has_empty()) {
    why = "it has no windows behind the image";
  } else {
    return same_format_options(bottom, top, DType::f32, true);
  }
  return {};
}

void PoolingNative::plan(PoolingLayer& pooling, Blobs bottom, Blobs top) {
  const Tensor& in = bottom[0]->data;
  maximum_ = pooling.method() == PoolingLayer::Method::maximum;
  rectifies_ = pooling.rectifies();
  planes_ = in.format() == Format::contiguous;
  const int64_t channels = in.shape()[1], block = block_of(in.format());
  int64_t of_pixel = planes_ ? 1 : channels;
  images_ = in.shape()[0] * (planes_ ? channels : 1);
  if (block > 1) {
    of_pixel = block;
    images_ = in.shape()[0] * ((channels + block - 1) / block);
  }
  const PoolingWindows& windows = pooling.windows();
  plan_ = PoolingPlan(windows.y, windows.x, of_pixel, windows.counts_padding);
  if (!maximum_ || !pooling.trains()) {
    choice_ = Tensor();
    return;
  }
  const bool fits_byte = plan_.y.kernel * plan_.x.kernel <= kCellsOfByte;
  choice_.set_layout(fits_byte ? DType::u8 : DType::i32, Format::contiguous);
  choice_.reshape({top[0]->data.storage()});
}

template <class Body>
void PoolingNative::each_part(int64_t rows, const Body& body) const {
  const int64_t parts = planes_ ? 1 : rows;
  const int64_t grain = std::max<int64_t>(kThreadInputs * parts / plan_.inputs(), 1);
  parallel_for(images_ * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / parts, i % parts);
  });
}

template <class Choice>
void PoolingNative::forward_maximum(const float* in, float* out) {
  Choice* choice = choice_.count() > 0 ? choice_.host_overwrite<Choice>() : nullptr;
  each_part(plan_.y.out, [&](int64_t image, int64_t row) {
    const float* x = in + image * plan_.inputs();
    float* y = out + image * plan_.outputs();
    Choice* chosen = choice ? choice + image * plan_.outputs() : nullptr;
    if (planes_) {
      max_pool_plane(plan_, x, y, chosen);
    } else {
      max_pool_row(plan_, row, x, y, chosen);
    }
    if (rectifies_) rectify(row, y, chosen);
  });
}

template <class Choice>
void PoolingNative::rectify(int64_t row, float* y, Choice* choice) const {
  const int64_t count = plan_.outputs() / (planes_ ? 1 : plan_.y.out), at = row * count;
  vectorized<rectify_outputs<Choice>>(y + at, choice ? choice + at : nullptr, count);
}

template <class Choice>
void PoolingNative::backward_maximum(const float* dy, float* dx) const {
  const Choice* choice = choice_.host<Choice>();
  each_part(plan_.y.size, [&](int64_t image, int64_t row) {
    const float* d = dy + image * plan_.outputs();
    const Choice* chosen = choice + image * plan_.outputs();
    if (planes_) return max_unpool_plane(plan_, d, chosen, dx + image * plan_.inputs());
    max_unpool_row(plan_, row, d, chosen, dx + image * plan_.inputs());
  });
}

void PoolingNative::run_forward(PoolingLayer&, Blobs bottom, Blobs top) {
  const float* in = bottom[0]->data.host<float>();
  float* out = top[0]->data.host_overwrite<float>();
  if (maximum_) {
    return choice_.dtype() == DType::i32 ? forward_maximum<int32_t>(in, out)
                                         : forward_maximum<uint8_t>(in, out);
  }
  each_part(plan_.y.out, [&](int64_t image, int64_t row) {
    const float* x = in + image * plan_.inputs();
    float* y = out + image * plan_.outputs();
    if (planes_) return average_pool_plane(plan_, x, y);
    average_pool_row(plan_, row, x, y);
  });
}

void PoolingNative::run_backward(PoolingLayer&, Blobs top, const std::vector<bool>& propagate,
                                 Blobs bottom) {
  if (!propagate[0]) return;
  const float* dy = top[0]->diff.host<float>();
  float* dx = bottom[0]->diff.host_overwrite<float>();
  if (maximum_) {
    return choice_.dtype() == DType::i32 ? backward_maximum<int32_t>(dy, dx)
                                         : backward_maximum<uint8_t>(dy, dx);
  }
  each_part(plan_.y.size, [&](int64_t image, int64_t row) {
    const float* d = dy + image * plan_.outputs();
    if (planes_) return average_unpool_plane(plan_, d, dx + image * plan_.inputs());
    average_unpool_row(plan_, row, d, dx + image * plan_.inputs());
  });
}

size_t PoolingNative::extra_bytes() const { return choice_.count() > 0 ? choice_.bytes() : 0; }

void PoolingNative::plan_scratch(ScratchPlan& scratch) const {
  if (!planes_) return;
  const size_t width = static_cast<size_t>(plan_.row_width()) * PoolingRows::kBytes;
  scratch.need("pooling rows", width * static_cast<size_t>(scratch.threads()));
}

void register_pooling_native(Registry& registry);

void register_pooling_native(Registry& registry) {
  registry.add_engine<PoolingNative>("Pooling", "native", DeviceType::cpu);
}

}  // namespace crema
