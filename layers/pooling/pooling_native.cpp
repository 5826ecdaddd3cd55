// The vectorized engine of Pooling: maximum and average, f32, every memory format. A maximum's
// choices are remembered as one byte an output where windows have no more than 255 cells.
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "layer_support/native_engine.hpp"
#include "layer_support/options.hpp"
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

/// The place of each cell of a window, counted from the window's first.
std::vector<int64_t> places_of(const PoolingPlan& plan) {
  std::vector<int64_t> places;
  for (int64_t y = 0; y < plan.y.kernel; ++y) {
    for (int64_t x = 0; x < plan.x.kernel; ++x) places.push_back(y * plan.x.size + x);
  }
  return places;
}

/// What the kernels of planes or of pixels compute: a reduction of each window along two axes.
struct PoolingStage {
  PoolingPlan plan;
  bool planes = true;       // or pixels
  int64_t images = 0;       // planes, or images of pixels
  Tensor choice{Shape{0}};  // of a maximum, laid out like the outputs; where something reads it

  void remember_choices() {
    const bool fits_byte = plan.y.kernel * plan.x.kernel <= kCellsOfByte;
    choice.set_layout(fits_byte ? DType::u8 : DType::i32, Format::contiguous);
    choice.reshape({images * plan.outputs()});
  }
  PoolingChoices choices() {
    if (choice.count() == 0) return {};
    if (choice.dtype() == DType::u8) return {.bytes = choice.change<uint8_t>()};
    return {.words = choice.change<int32_t>()};
  }
  /// Runs body(image, row) for each row of each image of pixels, or body(plane, 0) for each plane.
  template <class Body>
  void each_part(int64_t rows, const Body& body) const {
    const int64_t parts = planes ? 1 : rows;
    const int64_t grain = std::max<int64_t>(kThreadInputs * parts / plan.inputs(), 1);
    parallel_for(images * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i / parts, i % parts);
    });
  }
};

/// Volumes are pooled within their planes first, then along their depth. Along the depth, all
/// values of a plane are the channels of one pixel.
class PoolingKernel : public NativeKernel<PoolingLayer> {
 public:
  static std::vector<Option> options(const PoolingLayer& pooling, Blobs bottom, Blobs top,
                                     std::string& why) {
    const PoolingWindows& windows = pooling.windows();
    if (pooling.method() == PoolingLayer::Method::stochastic) {
      why = "it has no stochastic pooling";
    } else if (top.size() > 1 && (is_volume(windows) || windows.z.size > 1)) {
      // Stages know places within a plane only.
      why = "it has no second top for volumes";
    } else if (windows.z.has_empty() || windows.y.has_empty() || windows.x.has_empty()) {
      why = "it has no windows behind the image";
    } else {
      return same_format_options(bottom, top, DType::f32, top.size() == 1);
    }
    return {};
  }

  PoolingKernel(PoolingLayer& pooling, Blobs bottom, Blobs top) : NativeKernel(pooling) {
    const Tensor& in = bottom[0]->data;
    const PoolingWindows& windows = pooling.windows();
    const bool maximum = pooling.method() == PoolingLayer::Method::maximum;
    rectifies_ = pooling.rectifies();
    const int64_t channels = in.shape()[1];
    const int64_t of_pixel =
        in.format() == Format::channels_last ? channels : block_of(in.format());
    const int64_t volumes = in.shape()[0] * ((channels + of_pixel - 1) / of_pixel);
    stages_.clear();
    stages_.push_back({.plan = PoolingPlan(windows, maximum, of_pixel),
                       .planes = in.format() == Format::contiguous,
                       .images = volumes * windows.z.size});
    if (is_volume(windows)) {
      const PoolingWindows depth{.y = windows.z, .counts_padding = windows.counts_padding};
      const int64_t of_plane = stages_[0].plan.outputs();
      stages_.push_back(
          {.plan = PoolingPlan(depth, maximum, of_plane), .planes = false, .images = volumes});
    }
    between_ = Tensor(Shape{is_volume(windows) ? stages_[1].plan.inputs() * volumes : 0});
    places_ = top.size() > 1 ? places_of(stages_[0].plan) : std::vector<int64_t>();
    if (!maximum || !(pooling.trains() || top.size() > 1)) return;
    for (PoolingStage& stage : stages_) stage.remember_choices();
  }

  size_t bytes() const override {
    size_t bytes = between_.bytes();
    for (const PoolingStage& stage : stages_) bytes += stage.choice.bytes();
    return bytes;
  }

  void plan_scratch(ScratchPlan& scratch) const override {
    if (!stages_[0].planes) return;
    const size_t width = static_cast<size_t>(stages_[0].plan.row_width()) * PoolingRows::kBytes;
    scratch.need("pooling rows", width * static_cast<size_t>(scratch.threads()));
  }

 protected:
  void run_forward(PoolingLayer&, Blobs bottom, Blobs top) override {
    const float* in = bottom[0]->data.read<float>();
    float* out = top[0]->data.overwrite<float>();
    float* mask = top.size() > 1 ? top[1]->data.overwrite<float>() : nullptr;
    if (stages_.size() == 1) return forward_stage(stages_[0], in, out, mask, rectifies_);
    float* between = between_.overwrite<float>();
    forward_stage(stages_[0], in, between, nullptr, false);
    forward_stage(stages_[1], between, out, nullptr, rectifies_);
  }

  void run_backward(PoolingLayer&, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    const float* dy = top[0]->diff.read<float>();
    float* dx = bottom[0]->diff.overwrite<float>();
    if (stages_.size() == 1) return backward_stage(stages_[0], dy, dx);
    float* between = between_.overwrite<float>();
    backward_stage(stages_[1], dy, between);
    backward_stage(stages_[0], between, dx);
  }

 private:
  static bool is_volume(const PoolingWindows& windows) {
    return windows.z.kernel > 1 || windows.z.stride > 1;
  }

  void forward_stage(PoolingStage& stage, const float* in, float* out, float* mask,
                     bool rectifies) const {
    const PoolingPlan& plan = stage.plan;
    const PoolingChoices all = stage.choices();
    stage.each_part(plan.y.out, [&](int64_t image, int64_t row) {
      const float* x = in + image * plan.inputs();
      float* y = out + image * plan.outputs();
      const PoolingChoices chosen = all.from(image * plan.outputs());
      stage.planes ? pool_plane(plan, x, y, chosen) : pool_row(plan, row, x, y, chosen);
      const int64_t rows = stage.planes ? plan.y.out : 1, width = plan.outputs() / plan.y.out;
      if (mask) {
        float* const of_image = mask + image * plan.outputs();
        for (int64_t oy = row; oy < row + rows; ++oy) write_mask(plan, oy, chosen, of_image);
      }
      if (rectifies) rectify(row * width, rows * width, y, chosen);
    });
  }

  static void backward_stage(PoolingStage& stage, const float* dy, float* dx) {
    const PoolingPlan& plan = stage.plan;
    const PoolingChoices all = stage.choices();
    stage.each_part(plan.y.size, [&](int64_t image, int64_t row) {
      const float* from = dy + image * plan.outputs();
      float* to = dx + image * plan.inputs();
      const PoolingChoices chosen = all.from(image * plan.outputs());
      stage.planes ? unpool_plane(plan, from, chosen, to) : unpool_row(plan, row, from, chosen, to);
    });
  }

  /// One row of an image's mask: where each maximum lies in its plane.
  void write_mask(const PoolingPlan& plan, int64_t oy, const PoolingChoices& of_image,
                  float* mask) const {
    for (int64_t ox = 0; ox < plan.x.out; ++ox) {
      const int64_t first = plan.y.start(oy) * plan.x.size + plan.x.start(ox);
      const int64_t begin = (oy * plan.x.out + ox) * plan.channels;
      for (int64_t o = begin; o < begin + plan.channels; ++o) {
        const auto cell = of_image.bytes ? static_cast<size_t>(of_image.bytes[o])
                                         : static_cast<size_t>(of_image.words[o]);
        mask[o] = static_cast<float>(first + places_[cell]);
      }
    }
  }

  static void rectify(int64_t at, int64_t count, float* y, const PoolingChoices& of_image) {
    const PoolingChoices chosen = of_image.from(at);
    if (chosen.words) return vectorized<rectify_outputs<int32_t>>(y + at, chosen.words, count);
    vectorized<rectify_outputs<uint8_t>>(y + at, chosen.bytes, count);
  }

  std::vector<PoolingStage> stages_;  // one for images, two for volumes
  Tensor between_{Shape{0}};          // what the first of two stages gives the second
  std::vector<int64_t> places_;       // with a mask: of the cells
  bool rectifies_ = false;
};

}  // namespace

void register_pooling_native(Registry& registry) {
  for (const char* type : {"Pooling", "Pooling3D"})
    registry.add_engine<NativeEngine<PoolingKernel>>(type, "native", DeviceType::cpu);
}

}  // namespace crema
