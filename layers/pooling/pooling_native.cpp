// The vectorized engine of Pooling: maximum and average, f32, every memory format. A maximum's
// choices are remembered as one byte an output where windows have no more than 255 cells.
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "kit/native_engine.hpp"
#include "kit/options.hpp"
#include "layers/pooling/pooling.hpp"
#include "layers/pooling/pooling_kernels.hpp"

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

class PoolingNative : public NativeEngine<PoolingLayer> {
 public:
  size_t extra_bytes() const override { return choice_.bytes(); }

  void plan_scratch(ScratchPlan& scratch) const override {
    if (!planes_) return;
    const size_t width = static_cast<size_t>(plan_.row_width()) * PoolingRows::kBytes;
    scratch.need("pooling rows", width * static_cast<size_t>(scratch.threads()));
  }

 protected:
  std::vector<Option> layouts(const PoolingLayer& pooling, Blobs bottom, Blobs top,
                              std::string& why) override {
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

  void plan(PoolingLayer& pooling, Blobs bottom, Blobs top) override {
    const Tensor& in = bottom[0]->data;
    const bool maximum = pooling.method() == PoolingLayer::Method::maximum;
    rectifies_ = pooling.rectifies();
    planes_ = in.format() == Format::contiguous;
    const int64_t channels = in.shape()[1];
    const int64_t of_pixel =
        in.format() == Format::channels_last ? channels : block_of(in.format());
    images_ = in.shape()[0] * ((channels + of_pixel - 1) / of_pixel);
    plan_ = PoolingPlan(pooling.windows(), maximum, of_pixel);
    choice_ = Tensor(Shape{0});
    if (!maximum || !pooling.trains()) return;
    const bool fits_byte = plan_.y.kernel * plan_.x.kernel <= kCellsOfByte;
    choice_.set_layout(fits_byte ? DType::u8 : DType::i32, Format::contiguous);
    choice_.reshape({top[0]->data.storage()});
  }

  void run_forward(PoolingLayer&, Blobs bottom, Blobs top) override {
    const float* in = bottom[0]->data.host<float>();
    float* out = top[0]->data.host_overwrite<float>();
    const PoolingChoices all = choices();
    each_part(plan_.y.out, [&](int64_t image, int64_t row) {
      const float* x = in + image * plan_.inputs();
      float* y = out + image * plan_.outputs();
      const PoolingChoices chosen = all.from(image * plan_.outputs());
      planes_ ? pool_plane(plan_, x, y, chosen) : pool_row(plan_, row, x, y, chosen);
      if (rectifies_) rectify(row, y, chosen);
    });
  }

  void run_backward(PoolingLayer&, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    const float* dy = top[0]->diff.host<float>();
    float* dx = bottom[0]->diff.host_overwrite<float>();
    const PoolingChoices all = choices();
    each_part(plan_.y.size, [&](int64_t image, int64_t row) {
      const float* from = dy + image * plan_.outputs();
      float* to = dx + image * plan_.inputs();
      const PoolingChoices chosen = all.from(image * plan_.outputs());
      planes_ ? unpool_plane(plan_, from, chosen, to) : unpool_row(plan_, row, from, chosen, to);
    });
  }

 private:
  /// Runs body(image, row) for each row of each image of pixels, or body(plane, 0) for each plane.
  template <class Body>
  void each_part(int64_t rows, const Body& body) const {
    const int64_t parts = planes_ ? 1 : rows;
    const int64_t grain = std::max<int64_t>(kThreadInputs * parts / plan_.inputs(), 1);
    parallel_for(images_ * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i / parts, i % parts);
    });
  }

  PoolingChoices choices() {
    if (choice_.count() == 0) return {};
    if (choice_.dtype() == DType::u8) return {.bytes = choice_.host_mut<uint8_t>()};
    return {.words = choice_.host_mut<int32_t>()};
  }

  void rectify(int64_t row, float* y, const PoolingChoices& of_image) const {
    const int64_t count = plan_.outputs() / (planes_ ? 1 : plan_.y.out), at = row * count;
    const PoolingChoices chosen = of_image.from(at);
    if (chosen.words) return vectorized<rectify_outputs<int32_t>>(y + at, chosen.words, count);
    vectorized<rectify_outputs<uint8_t>>(y + at, chosen.bytes, count);
  }

  PoolingPlan plan_;
  bool rectifies_ = false;
  bool planes_ = true;       // contiguous; else pixels
  int64_t images_ = 0;       // planes, or images of pixels
  Tensor choice_{Shape{0}};  // of a maximum, laid out like the top; where the layer trains
};

}  // namespace

void register_pooling_native(Registry& registry) {
  registry.add_engine<PoolingNative>("Pooling", "native", DeviceType::cpu);
}

}  // namespace crema
