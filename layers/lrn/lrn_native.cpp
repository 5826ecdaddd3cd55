#include "layers/lrn/lrn_native.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "kit/pointwise.hpp"
#include "layers/lrn/lrn.hpp"

namespace crema {
namespace {

/// Elements of all channels that one part should have at least.
constexpr int64_t kPartElements = 16384;

}  // namespace

std::vector<Option> LRNNative::layouts(const LRNLayer& lrn, Blobs bottom, Blobs top, std::string&) {
  const auto& settings = lrn.settings();
  if (!settings.across_channels) return {uniform_option(bottom, top, DType::f32)};
  // Without k, padding becomes 0 * infinity.
  return same_format_options(bottom, top, DType::f32, settings.k > 0);
}

void LRNNative::plan(LRNLayer& lrn, Blobs bottom, Blobs) {
  const LRNSettings& settings = lrn.settings();
  const Tensor& x = bottom[0]->data;
  coefficients_ = {settings.reach, static_cast<float>(settings.weight),
                   static_cast<float>(settings.beta), static_cast<float>(settings.k)};
  channels_ = x.shape()[1];
  inner_ = x.shape().count(2);
  samples_ = x.shape()[0];
  sample_ = samples_ == 0 ? 0 : x.storage() / samples_;
  if (!settings.across_channels) {
    memory_ = Memory::planes;
    samples_ *= channels_;
    sample_ = inner_;
    height_ = x.shape()[2];
    width_ = x.shape()[3];
  } else if (x.format() == Format::contiguous && inner_ > 1) {
    memory_ = Memory::rows;
  } else {
    memory_ = Memory::pixels;
    const bool is_blocked = block_of(x.format()) > 1;
    block_ = is_blocked ? block_of(x.format()) : channels_;
    blocks_ = block_ == 0 ? 0 : (channels_ + block_ - 1) / block_;
  }
}

template <class Body>
void LRNNative::each_part(const Body& body) const {
  if (memory_ == Memory::planes) {
    parallel_for(samples_, std::max<int64_t>(kPartElements / std::max<int64_t>(sample_, 1), 1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) body(i * sample_, 0, inner_);
                 });
    return;
  }
  // Samples are cut between pixels; `run` is a whole number of cache lines of every format.
  const int64_t run =
      std::max<int64_t>(kPartElements / std::max<int64_t>(channels_, 1) / 64, 1) * 64;
  const int64_t parts = (inner_ + run - 1) / run;
  parallel_for(samples_ * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * run;
      body(i / parts * sample_, first, std::min(first + run, inner_));
    }
  });
}

void LRNNative::run_forward(LRNLayer&, Blobs bottom, Blobs top) {
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

void LRNNative::run_backward(LRNLayer&, Blobs top, const std::vector<bool>& propagate,
                             Blobs bottom) {
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

}  // namespace crema
