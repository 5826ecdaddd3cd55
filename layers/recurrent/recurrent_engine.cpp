// The engine "native" of recurrent layers: f32 on the CPU; each of the step's two products by the
// BLAS or by ThinProduct, whichever is faster.
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "core/published_engine.hpp"
#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "layer_support/matrix_products.hpp"
#include "layer_support/options.hpp"
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

/// Of directions side by side, each has one thread.
int threads_of_a_product(const RecurrentLayer& layer) {
  return layer.directions_side_by_side() ? 1 : omp_get_max_threads();
}

/// The weights of product k of the first direction, for measuring.
Tensor weights_of(const RecurrentLayer& layer, int k) {
  const Tensor& all = layer.recurrent_weights().data;
  const ProductSizes sizes = layer.product_sizes(k);
  const Shape shape{sizes.rows, sizes.columns};
  if (shape == all.shape()) return all;
  Tensor part(shape);
  part.fill(1e-3);  // zeros and denormals may have other times
  return part;
}

class RecurrentKernel : public Kernel {
 public:
  RecurrentKernel(RecurrentLayer& of, const Option& option, Blobs bottom, Blobs top)
      : Kernel(of), layer_(of) {
    of.prepare_reference(bottom, top);
    const ThreadScope scope(threads_of_a_product(of));
    const size_t passes = option.choice.size() / static_cast<size_t>(of.product_count());
    for (int i = 0; i < of.directions() * of.product_count(); ++i) {
      const int k = i % of.product_count();
      FasterProducts& products = products_.emplace_back(of.product_sizes(k), omp_get_max_threads());
      for (size_t pass = 0; pass < passes; ++pass) {
        const std::string name =
            take_choice(of.context(), of.product_sizes(k), kProductOf[pass],
                        option.choice[static_cast<size_t>(k) * passes + pass], products);
        if (i >= of.product_count()) continue;
        detail_ += text(detail_.empty() ? "" : ", ", kPassNames[pass], " ", name);
      }
    }
  }
  void enter(Blobs bottom, Blobs top) override { layer_.prepare_reference(bottom, top); }
  void forward(Blobs bottom, Blobs top) override {
    layer_.forward_by<float>(ComputeDevice(), products_.data(), bottom, top);
  }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    layer_.backward_by<float>(ComputeDevice(), products_.data(), top, propagate, bottom);
  }
  size_t bytes() const override {
    size_t bytes = layer_.kept_bytes();
    for (const FasterProducts& products : products_) bytes += products.bytes();
    return bytes;
  }
  std::string detail() const override { return detail_; }

 private:
  RecurrentLayer& layer_;
  std::vector<FasterProducts> products_;  // product_count() for each direction
  std::string detail_;
};

class RecurrentEngine : public Engine {
 public:
  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& why) const override {
    const auto& of = static_cast<const RecurrentLayer&>(layer);
    if (layer.dtype() != DType::f32) {
      why = text("it computes in f32, not in ", to_string(layer.dtype()));
      return {};
    }
    const bool forced = forced_engine(layer) == "native";
    if (!forced && of.batch() * of.width() * of.units() < kLeastMeasured) {
      why = "the product of a step is too small to measure";
      return {};
    }
    Option option = uniform_option(bottom, top, DType::f32);
    if (of.batch() == 0 || of.steps() == 0) return {option};
    const ThreadScope scope(threads_of_a_product(of));
    const bool by_turns = of.directions() == 2 && !of.directions_side_by_side();
    for (int k = 0; k < of.product_count(); ++k) {
      const ProductSizes sizes = of.product_sizes(k);
      const Tensor weights = weights_of(of, k);
      ProductTrial trial(of.context(), of.batch(), weights);
      for (size_t pass = 0; pass < (of.trains() ? 2 : 1); ++pass) {
        const ProductChoice choice = trial.choose(kProductOf[pass], probably_thin(sizes.batch));
        option.choice.push_back(choice.key);
        option.seconds +=
            choice.tuned.seconds * static_cast<double>(of.steps()) * (by_turns ? 2 : 1);
      }
    }
    return {option};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs bottom,
                               Blobs top) const override {
    return std::make_unique<RecurrentKernel>(static_cast<RecurrentLayer&>(layer), option, bottom,
                                             top);
  }
};

}  // namespace

void add_recurrent_engine(Registry& registry, const std::string& type) {
  registry.add_engine<RecurrentEngine>(type, "native", DeviceType::cpu);
}

}  // namespace crema
