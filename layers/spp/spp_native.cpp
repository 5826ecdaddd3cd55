// The vectorized engine of SPP: maximum and average, f32, contiguous, by the kernels of Pooling for
// planes. A plane goes through all levels while it is in the cache.
#include <algorithm>

#include "core/parallel.hpp"
#include "layer_support/native_engine.hpp"
#include "layers/pooling/pooling_kernels.hpp"
#include "layers/spp/spp.hpp"

namespace crema {
namespace {

/// Inputs that are worth a thread.
constexpr int64_t kThreadInputs = 8192;

class SPPKernel : public NativeKernel<SPPLayer> {
 public:
  static std::vector<Option> options(const SPPLayer& spp, Blobs bottom, Blobs top,
                                     std::string& why) {
    if (spp.method() != PoolingMethod::stochastic) {
      return {uniform_option(bottom, top, DType::f32)};
    }
    why = "it has no stochastic pooling";
    return {};
  }

  SPPKernel(SPPLayer& spp, Blobs bottom, Blobs top) : NativeKernel(spp) {
    const bool maximum = spp.method() == PoolingMethod::maximum;
    channels_ = bottom[0]->shape()[1];
    planes_ = bottom[0]->shape().count(0, 2);
    sample_ = top[0]->shape().count(1);
    plans_.clear();
    firsts_.clear();
    for (const SPPLayer::Level& level : spp.levels()) {
      plans_.emplace_back(level.windows, maximum, 1);
      firsts_.push_back(level.first);
    }
    choice_.reshape(maximum && spp.trains() ? top[0]->shape() : Shape{0});
  }

  size_t bytes() const override { return choice_.bytes(); }

  void plan_scratch(ScratchPlan& scratch) const override {
    size_t width = 0;
    for (const PoolingPlan& plan : plans_) {
      width = std::max(width, static_cast<size_t>(plan.row_width()));
    }
    scratch.need("pooling rows", width * PoolingRows::kBytes, scratch.threads());
    scratch.need("SPP plane", plans_.size() > 1 ? static_cast<size_t>(inputs()) * sizeof(float) : 0,
                 scratch.threads());
  }

 protected:
  void run_forward(SPPLayer&, Blobs bottom, Blobs top) override {
    const float* in = bottom[0]->data.read<float>();
    float* out = top[0]->data.overwrite<float>();
    const PoolingChoices all = choices();
    each_plane([&](int64_t plane) {
      for (size_t l = 0; l < plans_.size(); ++l) {
        const int64_t to = first_output(plane, l);
        pool_plane(plans_[l], in + plane * inputs(), out + to, all.from(to));
      }
    });
  }

  void run_backward(SPPLayer&, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    const float* dy = top[0]->diff.read<float>();
    float* dx = bottom[0]->diff.overwrite<float>();
    const PoolingChoices all = choices();
    each_plane([&](int64_t plane) {
      thread_local std::vector<float> of_level;
      float* const sum = dx + plane * inputs();
      for (size_t l = 0; l < plans_.size(); ++l) {
        const int64_t from = first_output(plane, l);
        if (l == 0) {
          unpool_plane(plans_[l], dy + from, all.from(from), sum);
          continue;
        }
        of_level.resize(static_cast<size_t>(inputs()));
        unpool_plane(plans_[l], dy + from, all.from(from), of_level.data());
        const float* const add = of_level.data();
        const int64_t count = inputs();
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) sum[i] += add[i];
      }
    });
  }

 private:
  int64_t inputs() const { return plans_[0].inputs(); }
  int64_t first_output(int64_t plane, size_t level) const {
    return plane / channels_ * sample_ + firsts_[level] +
           plane % channels_ * plans_[level].outputs();
  }
  PoolingChoices choices() {
    if (choice_.count() == 0) return {};
    return {.words = choice_.change<int32_t>()};
  }
  template <class Body>
  void each_plane(const Body& body) const {
    parallel_for(planes_, std::max<int64_t>(kThreadInputs / inputs(), 1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t plane = begin; plane < end; ++plane) body(plane);
                 });
  }

  int64_t planes_ = 0, channels_ = 1;
  int64_t sample_ = 0;                   // elements of a sample of the top
  std::vector<PoolingPlan> plans_;       // of the levels
  std::vector<int64_t> firsts_;          // where they begin in a sample
  Tensor choice_{Shape{0}, DType::i32};  // of a maximum, of the top's shape
};

}  // namespace

void register_spp_native(Registry& registry) {
  registry.add_engine<NativeEngine<SPPKernel>>("SPP", "native", DeviceType::cpu);
}

}  // namespace crema
