// The engine "native" of recurrent layers: f32 on the CPU; each of the step's two products by the
// BLAS or by ThinProduct, whichever is faster.
#include <optional>
#include <vector>

#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "kit/matrix_products.hpp"
#include "kit/options.hpp"
#include "layers/recurrent/recurrent_layer.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Multiply-adds of a step that are worth measuring.
constexpr int64_t kLeastMeasured = 1 << 20;

/// The products of forward and backward.
constexpr Product kProductOf[] = {Product::times_transposed, Product::times};
constexpr const char* kPassNames[] = {"forward", "backward"};

/// Without tuning: the BLAS packs the weights in each step, which pays for many sequences only.
bool probably_thin(int64_t batch) { return simd_level() >= SimdLevel::avx2 && batch <= 64; }

class RecurrentEngine : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override {
    const RecurrentLayer& of = this->of(layer);
    if (layer.dtype() != DType::f32) {
      why = concat("it computes in f32, not in ", to_string(layer.dtype()));
      return {};
    }
    const bool forced = layer.param().engine() == "native" || layer.context().engine() == "native";
    if (!forced && of.batch() * of.width() * of.units() < kLeastMeasured) {
      why = "the product of a step is too small to measure";
      return {};
    }
    Option option = uniform_option(bottom, top, DType::f32);
    if (of.batch() == 0 || of.steps() == 0) return {option};
    ProductTrial trial(of.context(), of.batch(), of.recurrent_weights().data);
    for (size_t pass = 0; pass < (of.trains() ? 2 : 1); ++pass) {
      const ProductChoice choice = trial.choose(kProductOf[pass], probably_thin(of.batch()));
      option.choice.push_back(choice.key);
      option.seconds += choice.seconds * static_cast<double>(of.steps());
    }
    return {option};
  }

  void prepare(Layer& layer, const Option& option, Blobs bottom, Blobs top) override {
    RecurrentLayer& of = this->of(layer);
    of.prepare_reference(bottom, top);
    products_.emplace(of.product_sizes(), layer.context().threads());
    detail_.clear();
    for (size_t pass = 0; pass < option.choice.size(); ++pass) {
      detail_ += concat(pass > 0 ? ", " : "", kPassNames[pass], " ",
                        take_choice(layer.context(), of.product_sizes(), kProductOf[pass],
                                    option.choice[pass], *products_));
    }
  }
  void resume(Layer& layer, Blobs bottom, Blobs top) override {
    of(layer).prepare_reference(bottom, top);
  }
  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    of(layer).forward_by<float>(Side(), *products_, bottom, top);
  }
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    of(layer).backward_by<float>(Side(), *products_, top, propagate, bottom);
  }
  size_t extra_bytes() const override { return products_ ? products_->bytes() : 0; }
  std::string detail() const override { return detail_; }

 private:
  static RecurrentLayer& of(Layer& layer) { return static_cast<RecurrentLayer&>(layer); }

  std::optional<FasterProducts> products_;
  std::string detail_;
};

}  // namespace

void add_recurrent_engine(Registry& registry, const std::string& type) {
  registry.add_engine<RecurrentEngine>(type, "native", DeviceType::cpu);
}

}  // namespace crema
