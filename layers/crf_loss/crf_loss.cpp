// CRFLoss: minus the log of the probability of the labels' path. See README.md.
#include <algorithm>
#include <numeric>

#include "core/dispatch.hpp"
#include "layer_support/kept_gradient.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layers/crf_loss/crf_layer.hpp"
#include "layers/crf_loss/crf_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Parts of the sequences, whose gradients of the parameters are summed apart. Their number depends
/// on the problem only, so that results do not depend on the number of threads: enough steps for a
/// part that its own sums count little, and at most 32 MiB of these sums, or those of four parts
/// where that is more: 64 C (C + 1) bytes.
int64_t parts_for(const std::vector<ChainSequence>& sequences, int64_t classes) {
  constexpr int64_t kSteps = 16, kValues = 1 << 22, kAlways = 4;
  int64_t steps = 0;
  for (const ChainSequence& sequence : sequences) steps += sequence.steps;
  const int64_t each = 2 * classes * (classes + 1);  // of ChainGradients
  const int64_t room = std::max(kAlways, kValues / each);
  return std::clamp<int64_t>(std::min(steps / kSteps, room), 1,
                             std::max<int64_t>(std::ssize(sequences), 1));
}

class CrfLossLayer : public CrfLayer {
 public:
  std::string host_part() const override { return "labels and sum of losses"; }
  bool host_reads(int b) const override { return b > 0; }
  bool host_writes() const override { return true; }
  explicit CrfLossLayer(const LayerInit& init)
      : CrfLayer(init), ignored_(ignored_label(init.param)), normalization_(init.param) {
    check_loss_settings(init, {});
  }

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 3, .min_tops = 1, .max_tops = 2};
  }
  std::optional<MeanUnits> mean_over(int top, int64_t) const override {
    if (top != 0) return std::nullopt;
    return normalization_.units(batch(), 1, static_cast<int64_t>(sequences_.size()));
  }
  float default_loss_weight(int top) const override { return top == 0 ? 1 : 0; }
  bool has_gradient(int top) const override { return top == 0; }
  /// Backward takes the number of sequences by value.
  bool capturable() const override { return false; }
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
    sums_.reshape(Shape{trains() ? classes() * (classes() + 2) : 0});
    used_.assign(static_cast<size_t>(steps() * batch()), true);
  }
  size_t kept_bytes() const override {
    size_t bytes = CrfLayer::kept_bytes() + gradient_.bytes() + sums_.bytes() +
                   labels_.classes().bytes() + used_.capacity() / 8 +
                   losses_.capacity() * sizeof(double);
    for (const ChainGradients& part : parts_) bytes += part.bytes();
    return bytes;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(sum_count()) * sizeof(double);
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    labels_.read(bottom[1]->data, 1, classes(), ignored_);
    const int32_t* labels = labels_.classes().read<int32_t>();
    for (size_t i = 0; i < used_.size(); ++i) used_[i] = labels[i] >= 0;
    find_sequences(steps(), batch(), bottom.size() > 2 ? &bottom[2]->data : nullptr, &used_,
                   sequences_);
    if (device.on_host()) begin_pass();
    dispatch_float(dtype(), [&]<class T>(T) {
      const Tensor& x = bottom[0]->data;
      Tensor* const path = top.size() > 1 ? &top[1]->data : nullptr;
      double loss;
      if (device.on_host()) {
        loss = sum_losses(x.read<T>(), labels);
        if (path) write_paths<T>(x, *path);
      } else {
        loss = sum_losses_there<T>(device, x, path);
      }
      top[0]->data.template overwrite<T>()[0] = static_cast<T>(loss / divisor());
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto scale = LossSeed<T>(device, *top[0]).template over<double>(divisor());
      const double* const sums = device.read<double>(sums_);
      const int64_t of_pairs = classes() * classes();
      add<T>(device, transitions_, sums, scale);
      add<T>(device, first_, sums + of_pairs, scale);
      add<T>(device, last_, sums + of_pairs + classes(), scale);
      if (propagate[0])
        write_diff<T>(device, {scale.known, scale.seed}, gradient_, bottom[0]->diff);
    });
  }

 protected:
  // The gradients are kept from forward.
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  double divisor() const {
    return normalization_.divisor(batch(), 1, static_cast<int64_t>(sequences_.size()));
  }

  /// The sum of the losses. In training, the gradients are in gradient_ and sums_ then.
  template <class T>
  double sum_losses(const T* x, const int32_t* labels) {
    T* gradient = nullptr;
    if (trains()) {
      gradient = gradient_.overwrite<T>();
      // Steps outside of sequences have none.
      std::fill(gradient, gradient + gradient_.count(), T(0));
    }
    const auto count = static_cast<int64_t>(sequences_.size());
    const int64_t parts = parts_for(sequences_, classes());
    losses_.assign(static_cast<size_t>(parts), 0);
    if (gradient && std::ssize(parts_) < parts) parts_.resize(static_cast<size_t>(parts));
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      Chain& chain = chains_[static_cast<size_t>(thread_number())];
      for (int64_t part = begin; part < end; ++part) {
        ChainGradients* const sums = gradient ? &parts_[static_cast<size_t>(part)] : nullptr;
        if (sums) sums->clear(classes());
        for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
          const ChainSequence& of = sequences_[static_cast<size_t>(i)];
          const int64_t at = of.first * batch() + of.column;
          check_scores(x + at * classes(), of);
          losses_[static_cast<size_t>(part)] +=
              chain.loss(weights_, x + at * classes(), stride(), of.steps, labels + at, batch(),
                         gradient ? gradient + at * classes() : nullptr, sums);
        }
        if (sums) sums->finish(weights_);
      }
    });
    if (gradient) add_parts(parts);
    return std::accumulate(losses_.begin(), losses_.end(), 0.0);
  }

  /// sums_ from those of the parts.
  void add_parts(int64_t parts) {
    double* const sums = sums_.overwrite<double>();
    const int64_t of_pairs = classes() * classes();
    const auto add = [&](std::vector<double> ChainGradients::*from, int64_t count, double* to) {
      parallel_for(count, kElementGrain / parts, [=, this](int64_t begin, int64_t end) {
        std::fill(to + begin, to + end, 0.0);
        for (int64_t part = 0; part < parts; ++part) {
          const double* const values = (parts_[static_cast<size_t>(part)].*from).data();
          for (int64_t i = begin; i < end; ++i) to[i] += values[i];
        }
      });
    };
    add(&ChainGradients::transitions, of_pairs, sums);
    add(&ChainGradients::first, classes(), sums + of_pairs);
    add(&ChainGradients::last, classes(), sums + of_pairs + classes());
  }

  /// Doubles of scratch memory of sum_losses_there(): scales, totals, sums of both directions, and
  /// parts of the gradient of the transitions. Best paths take the place of the sums.
  int64_t sum_count() const {
    const int64_t parts = pair_parts();
    return scale_count() + steps() * batch() + (trains() ? 2 : 1) * steps() * stride() +
           (trains() && parts > 1 ? parts * classes() * classes() : 0);
  }
  /// Parts of the positions, by which threads share the gradient of a transition.
  int64_t pair_parts() const {
    constexpr int64_t kThreads = 1 << 16, kPositions = 16;
    return std::clamp<int64_t>(kThreads / (classes() * classes()), 1,
                               std::max<int64_t>(steps() * batch() / kPositions, 1));
  }

  /// sum_losses() on a device. `path`: top 1, or null.
  template <class T>
  double sum_losses_there(const ComputeDevice& device, const Tensor& scores, Tensor* path) {
    const ChainBatch of = batch_there(device);
    double* const memory = pass_scratch<double>(device, sum_count(), scratch_);
    double *const totals = memory + scale_count(), *const until = totals + of.positions;
    double* const after = until + steps() * stride();  // in training
    double* const losses = overwrite<double>(device, values_, of.positions);
    const T *const x = device.read<T>(scores), *const transitions =
                                                   device.read<T>(transitions_->data);
    const int32_t* const labels = device.read<int32_t>(labels_.classes());
    const ChainScales scales = scales_there<T>(device, true, memory);
    for_each_block(device, (trains() ? 2 : 1) * of.count, of.classes, of.classes,
                   ChainSums<T>{of, scales, x, transitions, labels, until, after, totals, losses});
    if (trains()) {
      const ChainShares<T> shares{
          of, scales, x, transitions, labels, until, after, totals, device.overwrite<T>(gradient_)};
      for_each(device, gradient_.count(), kPassGrain, shares);
      double* const sums = device.overwrite<double>(sums_);
      const int64_t of_pairs = of.classes * of.classes, parts = pair_parts();
      double* const of_parts = parts > 1 ? after + steps() * stride() : sums;
      for_each(device, parts * of_pairs, 1, PairShares<T>{shares, parts, of_parts});
      if (parts > 1)
        for_each(device, of_pairs, kPassGrain, AddParts{parts, of_pairs, of_parts, sums});
      if (first_ != nullptr) {
        channel_sums(device, {of.count, of.classes, 1}, kPassGrain, EndShares<T>{shares},
                     StoreSums{sums + of_pairs, sums + of_pairs + of.classes});
      }
    }
    if (path) write_paths_there<T>(device, of, scales, scores, until, totals, *path);
    check_values<T>(values_, scores);
    const double* const found = values_.read<double>();
    return std::accumulate(found, found + of.count, 0.0);
  }

  template <class T>
  static void add(const ComputeDevice& device, Parameter* parameter, const double* sums,
                  const SeedFactor<T, double>& scale) {
    if (T* const gradient = gradient_of<T>(device, parameter))
      for_each(device, parameter->shape().count(), kPassGrain, AddScaled<T>{scale, sums, gradient});
  }

  const std::optional<int> ignored_;
  LossNormalization normalization_;
  Labels labels_;
  std::vector<bool> used_;             // (T, N): steps whose label is not ignored
  std::vector<ChainGradients> parts_;  // of the host
  std::vector<double> losses_;         // of the parts
  // Where the layer trains, after forward and before the division:
  Tensor gradient_{Shape{0}};          // (T, N, C)
  Tensor sums_{Shape{0}, DType::f64};  // gradients of transitions (C, C), first (C) and last (C)
};

}  // namespace

void register_crf_loss(Registry& registry) { add_two_sided<CrfLossLayer>(registry, "CRFLoss"); }

}  // namespace crema
