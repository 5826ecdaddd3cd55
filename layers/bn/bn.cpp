// BN: BatchNorm with its scale and bias, in the dialects of two forks. See README.md.
#include "layers/batch_norm/batch_norm.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Scale and shift alone are saved; settings scale_filler, shift_filler and bn_mode.
bool has_no_statistics(const BNParameter& settings) {
  return settings.has_scale_filler() || settings.has_shift_filler() || settings.has_bn_mode();
}

class BnLayer : public BatchNormLayer {
 public:
  explicit BnLayer(const LayerInit& init) : BatchNormLayer(init, settings_of(init)) {}

  bool convert_weights(std::vector<Tensor>& published) const override {
    if (published.size() != params().size()) return false;
    for (Tensor& values : published) {
      if (values.count() != channels()) return false;
      values.reshape(Shape{channels()});
    }
    return true;
  }

 protected:
  Roles add_params() override {
    const BNParameter& settings = param().bn_param();
    const auto add = [this](bool is_set, const FillerParameter& filler, double otherwise) {
      return &add_param({channels()}, is_set ? Filler(filler) : Filler::constant(otherwise));
    };
    Roles roles;
    if (has_no_statistics(settings)) {
      roles.scale = add(settings.has_scale_filler(), settings.scale_filler(), 1);
      roles.bias = add(settings.has_shift_filler(), settings.shift_filler(), 0);
      return roles;
    }
    roles.scale = add(settings.has_slope_filler(), settings.slope_filler(), 1);
    roles.bias = add(settings.has_bias_filler(), settings.bias_filler(), 0);
    roles.means = &add_statistics(channels());
    roles.variances = &add_statistics(channels());
    return roles;
  }

 private:
  static Settings settings_of(const LayerInit& init) {
    const BNParameter& settings = init.param.bn_param();
    if (!has_no_statistics(settings)) {
      const double momentum = settings.momentum();
      if (!(momentum >= 0 && momentum <= 1))
        throw Error("momentum ", momentum,
                    " is outside [0, 1]; give the share of the old statistics that stays");
      return {.stored = settings.frozen() || init.phase == Phase::test,
              .fraction = momentum,
              .epsilon = settings.eps()};
    }
    const auto refuse = [](const char* field) {
      throw Error("bn_param sets ", field,
                  " together with scale_filler, shift_filler or bn_mode, which are of another "
                  "fork's BN; use slope_filler, bias_filler, momentum and frozen for a layer that "
                  "keeps statistics, and the others for one that keeps none");
    };
    if (settings.has_slope_filler()) refuse("slope_filler");
    if (settings.has_bias_filler()) refuse("bias_filler");
    if (settings.has_momentum()) refuse("momentum");
    if (settings.has_frozen()) refuse("frozen");
    constexpr double kEpsilon = 1e-9;  // of that fork
    return {.stored = settings.bn_mode() == BNParameter::INFERENCE,
            .epsilon = settings.has_eps() ? settings.eps() : kEpsilon};
  }
};

}  // namespace

void register_bn(Registry& registry) { add_two_sided<BnLayer>(registry, "BN"); }

}  // namespace crema
