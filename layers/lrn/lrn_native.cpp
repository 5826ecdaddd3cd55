// The vectorized engine of LRN: f32; every memory format across channels, contiguous memory within
// a channel.
#include <algorithm>

#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "crema/scratch_plan.hpp"
#include "kit/native_engine.hpp"
#include "kit/options.hpp"
#include "layers/lrn/lrn.hpp"
#include "layers/lrn/lrn_kernels.hpp"

namespace crema {
namespace {

/// Elements of all channels that one part should have at least.
constexpr int64_t kPartElements = 16384;

class LRNNative : public NativeEngine<LRNLayer> {
 public:
  void plan_scratch(ScratchPlan& plan) const override {
    const auto threads = static_cast<size_t>(std::min<int64_t>(plan.threads(), samples_ * parts_));
    plan.need("lrn", threads * scratch_bytes_);
  }

 protected:
  std::vector<Option> layouts(const LRNLayer& lrn, Blobs bottom, Blobs top, std::string&) override {
    const LRNSettings& settings = lrn.settings();
    if (!settings.across_channels) return {uniform_option(bottom, top, DType::f32)};
    // Without k, padding becomes 0 * infinity.
    return same_format_options(bottom, top, DType::f32, settings.k > 0);
  }

  void plan(LRNLayer& lrn, Blobs bottom, Blobs) override {
    const LRNSettings& settings = lrn.settings();
    const Tensor& x = bottom[0]->data;
    coefficients_ = {settings.reach, static_cast<float>(settings.weight),
                     static_cast<float>(settings.beta), static_cast<float>(settings.k)};
    channels_ = x.shape()[1];
    inner_ = x.shape().count(2);
    samples_ = x.shape()[0];
    sample_ = samples_ == 0 ? 0 : x.storage() / samples_;
    // Samples are cut between pixels; `run_` is a whole number of cache lines of every format.
    run_ = std::max<int64_t>(kPartElements / std::max<int64_t>(channels_, 1) / 64, 1) * 64;
    grain_ = 1;
    int64_t scratch = 0;
    if (!settings.across_channels) {
      memory_ = Memory::planes;
      samples_ *= channels_;
      sample_ = inner_;
      height_ = x.shape()[2];
      width_ = x.shape()[3];
      run_ = std::max<int64_t>(inner_, 1);
      grain_ = kPartElements / run_;
      scratch = lrn_plane_scratch(settings.reach, height_, width_, lrn.trains());
    } else if (x.format() == Format::contiguous && inner_ > 1) {
      memory_ = Memory::rows;
      scratch = lrn_rows_scratch(channels_, lrn.trains());
    } else {
      memory_ = Memory::pixels;
      const bool is_blocked = block_of(x.format()) > 1;
      block_ = is_blocked ? block_of(x.format()) : channels_;
      blocks_ = block_ == 0 ? 0 : (channels_ + block_ - 1) / block_;
      scratch = lrn_pixels_scratch(settings.reach, blocks_ * block_, lrn.trains());
    }
    parts_ = (inner_ + run_ - 1) / run_;
    scratch_bytes_ = static_cast<size_t>(scratch) * sizeof(float);
  }

  void run_forward(LRNLayer&, Blobs bottom, Blobs top) override {
    const float* x = bottom[0]->data.host<float>();
    float* y = top[0]->data.host_overwrite<float>();
    each_part([&](int64_t at, int64_t begin, int64_t end) {
      if (memory_ == Memory::planes) {
        lrn_plane(coefficients_, height_, width_, x + at, y + at);
      } else if (memory_ == Memory::rows) {
        lrn_rows(coefficients_, channels_, inner_, begin, end, x + at, y + at);
      } else {
        lrn_pixels(coefficients_, blocks_, block_, inner_, begin, end, x + at, y + at);
      }
    });
  }

  void run_backward(LRNLayer&, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    const float* x = bottom[0]->data.host<float>();
    const float* dy = top[0]->diff.host<float>();
    float* dx = bottom[0]->diff.host_overwrite<float>();
    each_part([&](int64_t at, int64_t begin, int64_t end) {
      if (memory_ == Memory::planes) {
        lrn_plane_gradient(coefficients_, height_, width_, x + at, dy + at, dx + at);
      } else if (memory_ == Memory::rows) {
        lrn_rows_gradient(coefficients_, channels_, inner_, begin, end, x + at, dy + at, dx + at);
      } else {
        lrn_pixels_gradient(coefficients_, blocks_, block_, inner_, begin, end, x + at, dy + at,
                            dx + at);
      }
    });
  }

 private:
  enum class Memory : uint8_t { planes, rows, pixels };

  /// Runs body(offset of the sample or plane, begin, end) for parts of it that threads share out.
  template <class Body>
  void each_part(const Body& body) const {
    parallel_for(samples_ * parts_, grain_, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t begin = i % parts_ * run_;
        body(i / parts_ * sample_, begin, std::min(begin + run_, inner_));
      }
    });
  }

  LRNCoefficients coefficients_;
  Memory memory_ = Memory::rows;
  int64_t samples_ = 0;               // or planes
  int64_t sample_ = 0;                // elements of one, padding counted
  int64_t parts_ = 1, run_ = 1;       // parts of one, and elements or pixels of a part
  int64_t grain_ = 1;                 // parts for which a further thread is worthwhile
  int64_t height_ = 1, width_ = 1;    // planes
  int64_t channels_ = 0, inner_ = 0;  // rows
  int64_t blocks_ = 1, block_ = 1;    // pixels
  size_t scratch_bytes_ = 0;          // of each thread
};

}  // namespace

void register_lrn_native(Registry& registry);

void register_lrn_native(Registry& registry) {
  registry.add_engine<LRNNative>("LRN", "native", DeviceType::cpu);
}

}  // namespace crema
