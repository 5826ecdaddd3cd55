// The vectorized engine of MVN: f32, contiguous; statistics in one pass, after subtracting the
// first value of each group.
#include <vector>

#include "backend/cpu/channelwise.hpp"
#include "layer_support/native_engine.hpp"
#include "layers/mvn/deviation.hpp"
#include "layers/mvn/mvn.hpp"

namespace crema {
namespace {

class MVNKernel : public NativeKernel<MVNLayer> {
 public:
  static std::vector<Option> options(const MVNLayer&, Blobs bottom, Blobs top, std::string&) {
    return {uniform_option(bottom, top, DType::f32)};
  }

  MVNKernel(MVNLayer& mvn, Blobs, Blobs) : NativeKernel(mvn) {
    const ChannelView& view = mvn.view();
    const ChannelLayout layout = view.channels == 1
                                     ? ChannelLayout::of_one(view.inner)
                                     : ChannelLayout::of(1, view.channels, view.inner);
    split_ = ChannelSplit(layout, mvn.context().threads());
    scratch_.resize(split_);
    const auto groups = static_cast<size_t>(view.channels);
    inverse_.assign(groups, 0);
    for (auto* values : {&gain_, &centre_, &shift_, &slope_}) values->assign(groups, 0);
  }

  size_t bytes() const override {
    return scratch_.bytes() + inverse_.size() * sizeof(double) +
           (gain_.size() + centre_.size() + shift_.size() + slope_.size()) * sizeof(float);
  }

 protected:
  void run_forward(MVNLayer& mvn, Blobs bottom, Blobs top) override {
    centre(mvn, bottom[0]->data.read<float>(), mvn.normalizes_variance(),
           top[0]->data.overwrite<float>());
  }

  void run_backward(MVNLayer& mvn, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    const float* dy = top[0]->diff.read<float>();
    float* dx = bottom[0]->diff.overwrite<float>();
    if (!mvn.normalizes_variance()) return centre(mvn, dy, false, dx);
    if (mvn.view().inner == 0) return;
    const float* y = top[0]->data.read<float>();
    const ChannelLayout& layout = split_.layout();
    const double count = static_cast<double>(mvn.view().inner);
    std::fill(centre_.begin(), centre_.end(), 0.0F);
    channel_passes(
        split_, scratch_,
        [&](const ChannelPiece& piece, const ChannelSums& sums) {
          channel_gradient_sums(layout, piece, y, dy, nullptr, {}, sums);
        },
        [&](int64_t begin, int64_t end, const ChannelSums& sums) {
          for (int64_t c = begin; c < end; ++c) {
            const auto i = static_cast<size_t>(c);
            const SumPair means =
                mvn::means_of({sums.first[c], sums.second[c]}, count, inverse_[i], mvn.epsilon());
            gain_[i] = static_cast<float>(inverse_[i]);
            slope_[i] = static_cast<float>(-inverse_[i] * means.second);
            shift_[i] = static_cast<float>(-inverse_[i] * means.first);
          }
        },
        [&](const ChannelPiece& piece) {
          channel_gradient(layout, piece, y, dy,
                           {gain_.data(), centre_.data(), slope_.data(), shift_.data()}, {}, dx);
        });
  }

 private:
  /// to = from less the mean of its group, times inverse_ if `scales`.
  void centre(const MVNLayer& mvn, const float* from, bool scales, float* to) {
    if (mvn.view().inner == 0) return;
    const ChannelLayout& layout = split_.layout();
    const double count = static_cast<double>(mvn.view().inner);
    channel_origins(layout, from, centre_.data());
    channel_passes(
        split_, scratch_,
        [&](const ChannelPiece& piece, const ChannelSums& sums) {
          channel_moments(layout, piece, from, centre_.data(), sums);
        },
        [&](int64_t begin, int64_t end, const ChannelSums& sums) {
          for (int64_t c = begin; c < end; ++c) {
            const auto i = static_cast<size_t>(c);
            const ChannelMoments moments = moments_of(sums, c, count, centre_[i]);
            inverse_[i] = scales ? mvn::inverse_of(moments.variance, mvn.epsilon()) : 1;
            set_affine(moments.mean, inverse_[i], 0, gain_[i], centre_[i], shift_[i]);
          }
        },
        [&](const ChannelPiece& piece) {
          channel_affine(layout, piece, from, {gain_.data(), centre_.data(), shift_.data()}, to);
        });
  }

  ChannelSplit split_;
  ChannelScratch scratch_;
  std::vector<double> inverse_;  // of the groups, 1 / (deviation + eps)
  // Coefficients of the groups; see AffineCoefficients, and ChannelGradient with `shift_` as its
  // offset.
  std::vector<float> gain_, centre_, shift_, slope_;
};

}  // namespace

void register_mvn_native(Registry& registry) {
  registry.add_engine<NativeEngine<MVNKernel>>("MVN", "native", DeviceType::cpu);
}

}  // namespace crema
