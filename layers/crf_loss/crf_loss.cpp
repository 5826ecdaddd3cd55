// CRFLoss: minus the log of the probability of the labels' path. See README.md.
#include <algorithm>
#include <array>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "kit/labels.hpp"
#include "layers/crf_loss/crf_layer.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Parts of the batch whose gradients of the parameters are summed apart. Fixed, so that results
/// do not depend on the number of threads.
constexpr int64_t kParts = 8;

class CrfLossLayer : public CrfLayer {
 public:
  explicit CrfLossLayer(const LayerInit& init)
      : CrfLayer(init), ignored_(ignored_label(init.param)), normalization_(init.param) {
    check_loss_settings(init, false);
  }

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 3, .min_tops = 1, .max_tops = 2};
  }
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }
  bool is_exact_top(int) const override { return true; }

  void reshape(Blobs bottom, Blobs top) override {
    read_shape(bottom);
    if (classes() != transitions_->shape()[0])
      throw Error("the scores '", bottom[0]->name, "' (", bottom[0]->shape().str(), ") have ",
                  classes(), " classes, but the transitions ", transitions_->shape()[0]);
    check_like_scores(*bottom[1], *bottom[0], "labels");
    if (bottom.size() > 2) check_like_scores(*bottom[2], *bottom[0], "indicators");
    top[0]->reshape(Shape{});
    if (top.size() > 1) top[1]->reshape(Shape{steps(), batch()});
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    gradient_.set_layout(dtype(), Format::contiguous);
    gradient_.reshape(trains() ? bottom[0]->shape() : Shape{0});
    used_.assign(static_cast<size_t>(steps() * batch()), true);
  }
  size_t kept_bytes() const override {
    size_t bytes = CrfLayer::kept_bytes() + gradient_.bytes();
    for (const ChainGradients& part : parts_)
      bytes += (2 * part.transitions.capacity() + 2 * part.first.capacity()) * sizeof(double);
    return bytes;
  }

  void forward_cpu(Blobs bottom, Blobs top) override {
    labels_.read(bottom[1]->data, 1, classes(), ignored_);
    const int32_t* labels = labels_.classes().host<int32_t>();
    for (size_t i = 0; i < used_.size(); ++i) used_[i] = labels[i] >= 0;
    find_sequences(steps(), batch(), bottom.size() > 2 ? &bottom[2]->data : nullptr, &used_,
                   sequences_);
    begin_pass();
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = bottom[0]->data.template host<T>();
      T* gradient = nullptr;
      if (trains()) {
        gradient = gradient_.host_overwrite<T>();
        // Steps outside of sequences have none.
        std::fill(gradient, gradient + gradient_.count(), T(0));
      }
      const double loss = sum_losses(x, labels, gradient);
      top[0]->data.template host_overwrite<T>()[0] = static_cast<T>(loss / divisor());
      if (top.size() > 1) write_paths(x, top[1]->data.template host_overwrite<T>());
    });
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const double scale = static_cast<double>(top[0]->diff.template host<T>()[0]) / divisor();
      add<T>(transitions_, parts_[0].transitions, scale);
      add<T>(first_, parts_[0].first, scale);
      add<T>(last_, parts_[0].last, scale);
      if (!propagate[0]) return;
      const T* gradient = gradient_.host<T>();
      T* dx = bottom[0]->diff.template host_overwrite<T>();
      parallel_for(bottom[0]->count(), kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) dx[i] = static_cast<T>(scale) * gradient[i];
      });
    });
  }

 protected:
  // The gradients are kept from forward.
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  double divisor() const {
    return normalization_.divisor(batch(), 1, static_cast<int64_t>(sequences_.size()));
  }

  /// The sum of the losses; the sums of the gradients of the parameters are in part 0 then.
  template <class T>
  double sum_losses(const T* x, const int32_t* labels, T* gradient) {
    const auto count = static_cast<int64_t>(sequences_.size());
    std::array<double, kParts> losses{};
    parallel_for(kParts, 1, [&](int64_t begin, int64_t end) {
      Chain& chain = chains_[static_cast<size_t>(thread_number())];
      for (int64_t part = begin; part < end; ++part) {
        ChainGradients& sums = parts_[static_cast<size_t>(part)];
        if (gradient) sums.clear(classes());
        for (int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i) {
          const ChainSequence& of = sequences_[static_cast<size_t>(i)];
          const int64_t at = of.first * batch() + of.column;
          check_scores(x + at * classes(), of);
          losses[static_cast<size_t>(part)] +=
              chain.loss(weights_, x + at * classes(), stride(), of.steps, labels + at, batch(),
                         gradient ? gradient + at * classes() : nullptr, &sums);
        }
        if (gradient) sums.finish(weights_);
      }
    });
    double sum = losses[0];
    for (size_t part = 1; part < parts_.size(); ++part) {
      sum += losses[part];
      if (gradient) parts_[0].add(parts_[part]);
    }
    return sum;
  }

  template <class T>
  static void add(Parameter* parameter, const std::vector<double>& sums, double scale) {
    if (parameter == nullptr || !parameter->needs_gradient) return;
    T* to = parameter->gradient().host_mut<T>();
    for (size_t i = 0; i < sums.size(); ++i) to[i] += static_cast<T>(scale * sums[i]);
  }

  const std::optional<int> ignored_;
  LossNormalization normalization_;
  Labels labels_;
  std::vector<bool> used_;                    // (T, N): steps whose label is not ignored
  std::array<ChainGradients, kParts> parts_;  // in part 0, after forward, of all
  Tensor gradient_{Shape{0}};  // (T, N, C), where the layer trains: before the division
};

}  // namespace

void register_crf_loss(Registry& registry) { registry.add<CrfLossLayer>("CRFLoss"); }

}  // namespace crema
