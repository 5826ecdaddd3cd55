// The engine "native" of recurrent layers: f32 on the CPU; each of the step's two products by the
// BLAS or by ThinProduct, whichever is faster.
#include <omp.h>

#include <vector>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/thin_product.hpp"
#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "crema/registry.hpp"
#include "kit/options.hpp"
#include "kit/tuning.hpp"
#include "layers/recurrent/recurrent_layer.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Multiply-adds of a step that are worth measuring.
constexpr int64_t kLeastMeasured = 1 << 20;

class FasterProducts : public StepProducts<float> {
 public:
  FasterProducts(int64_t batch, int64_t width, int64_t units, int threads)
      : batch_(batch), width_(width), units_(units), thin_(batch, width, units, threads) {}

  bool thin_forward = true, thin_backward = true;

  void forward(const float* hidden, const float* weights, float* sums) override {
    if (thin_forward) return thin_.times_transposed(hidden, weights, sums);
    gemm<float>(false, true, batch_, width_, units_, 1, hidden, weights, 0, sums);
  }
  void backward(const float* sum_diffs, const float* weights, float* hidden_diffs) override {
    if (thin_backward) return thin_.times(sum_diffs, weights, hidden_diffs);
    gemm<float>(false, false, batch_, units_, width_, 1, sum_diffs, weights, 0, hidden_diffs);
  }
  size_t bytes() const { return thin_.bytes(); }

 private:
  int64_t batch_, width_, units_;
  ThinProduct thin_;
};

/// Without tuning: the BLAS packs the weights in each step, which pays for many sequences only.
bool probably_thin(int64_t batch) { return simd_level() >= SimdLevel::avx2 && batch <= 64; }

std::string candidate(bool thin) {
  return thin ? concat("thin @", ThinProduct::kRevision) : concat("gemm @", blas_name());
}

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
    if (of.batch() > 0 && of.steps() > 0) choose(of, option);
    return {option};
  }

  void prepare(Layer& layer, const Option& option, Blobs bottom, Blobs top) override {
    RecurrentLayer& of = this->of(layer);
    of.prepare_reference(bottom, top);
    products_ = std::make_unique<FasterProducts>(of.batch(), of.width(), of.units(),
                                                 layer.context().threads());
    detail_.clear();
    for (size_t pass = 0; pass < option.choice.size(); ++pass) {
      const std::string& key = option.choice[pass];
      (pass == 0 ? products_->thin_forward : products_->thin_backward) = key == candidate(true);
      layer.context().tuner().choose(problem(of, pass).name(), key);
      detail_ += concat(pass > 0 ? ", " : "", kPassNames[pass], " ", key.substr(0, key.find(" @")));
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
  static constexpr const char* kPassNames[] = {"forward", "backward"};

  static RecurrentLayer& of(Layer& layer) { return static_cast<RecurrentLayer&>(layer); }

  static TunedProblem problem(const RecurrentLayer& of, size_t pass) {
    return {concat("recurrent step ", kPassNames[pass], " ", omp_get_max_threads(), "t ",
                   of.width(), "x", of.units(), " by "),
            Shape{of.batch()}};
  }

  static void choose(const RecurrentLayer& of, Option& option) {
    Tensor hidden(Shape{of.batch(), of.units()}), sums(Shape{of.batch(), of.width()});
    FasterProducts products(of.batch(), of.width(), of.units(), omp_get_max_threads());
    bool ready = false;
    const float* const weights = of.recurrent_weights().data.host<float>();
    for (size_t pass = 0; pass < (of.trains() ? 2 : 1); ++pass) {
      std::vector<TunedCandidate> candidates;
      const bool first = probably_thin(of.batch());
      for (const bool thin : {first, !first}) {
        candidates.push_back(
            {candidate(thin), [&, pass, thin] {
               if (!ready) {
                 hidden.fill(1e-3);  // zeros may have other times
                 sums.fill(1e-3);
                 ready = true;
               }
               products.thin_forward = products.thin_backward = thin;
               if (pass == 0) {
                 products.forward(hidden.host<float>(), weights, sums.host_mut<float>());
               } else {
                 products.backward(sums.host<float>(), weights, hidden.host_mut<float>());
               }
             }});
      }
      const TunedChoice choice = choose_candidate(of.context(), problem(of, pass), candidates);
      option.choice.push_back(candidates[choice.candidate].key);
      option.seconds += choice.seconds * static_cast<double>(of.steps());
    }
  }

  std::unique_ptr<FasterProducts> products_;
  std::string detail_;
};

}  // namespace

void add_recurrent_engine(Registry& registry, const std::string& type) {
  registry.add_engine<RecurrentEngine>(type, "native", DeviceType::cpu);
}

}  // namespace crema
