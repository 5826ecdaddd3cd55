// CTCLoss: minus the log of the probability of a label sequence. See README.md.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "core/dispatch.hpp"
#include "layer_support/kept_gradient.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layers/ctc_loss/ctc_alignment.hpp"
#include "layers/ctc_loss/ctc_labels.hpp"
#include "layers/ctc_loss/ctc_passes.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;      // elements that a thread should have at least
constexpr int64_t kStepThreads = 32;  // of a device, for a step of a sequence

/// blank_index, or the fork's blank_label, or what the type means without them.
int blank_of(const LayerParameter& param) {
  const CTCLossParameter& settings = param.ctc_loss_param();
  const bool by_label = settings.has_blank_label();
  const int blank_label = static_cast<int>(settings.blank_label());
  if (settings.has_blank_index() && by_label && settings.blank_index() != blank_label)
    throw Error("blank_index ", settings.blank_index(), " and blank_label ", blank_label,
                " name the same class in two ways; remove one");
  if (by_label) return blank_label;
  if (settings.has_blank_index()) return settings.blank_index();
  return param.type() == "CTCLoss" ? -1 : 0;
}

class CtcLossLayer : public TwoSidedLayer {
 public:
  std::string host_part() const override { return "labels and sum of losses"; }
  bool host_reads(int b) const override { return b > 0; }
  bool host_writes() const override { return true; }
  explicit CtcLossLayer(const LayerInit& init)
      : TwoSidedLayer(init), blank_(blank_of(init.param)), normalization_(init.param) {
    check_loss_settings(init, {.ignore_label = false});
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 4}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  std::optional<MeanUnits> mean_over(int top, int64_t) const override {
    if (top != 0) return std::nullopt;
    return normalization_.units(shape_.batch, 1, counted_);
  }
  float default_loss_weight(int) const override { return 1; }
  /// Backward takes the number of sequences that count by value.
  bool capturable() const override { return false; }

  void reshape(Blobs bottom, Blobs top) override {
    const CTCLossParameter& settings = param().ctc_loss_param();
    shape_ = CtcShape::of(*bottom[0]);
    if (settings.alphabet_size() != 0 && settings.alphabet_size() != shape_.classes)
      throw Error("alphabet_size ", settings.alphabet_size(), " is not the number of classes of '",
                  bottom[0]->name, "' (", bottom[0]->shape().str(), "); remove it");
    if (settings.time_step() > shape_.steps)
      throw Error("time_step ", settings.time_step(), " exceeds the ", shape_.steps, " steps of '",
                  bottom[0]->name, "' (", bottom[0]->shape().str(), ")");
    if (settings.time_step() != 0 && bottom.size() > 2)
      throw Error("time_step ", settings.time_step(),
                  " is for layers whose bottoms are scores and labels alone; this one reads the "
                  "steps of each sequence from '",
                  bottom[1]->name, "': remove it");
    blank_class(blank_, shape_.classes);
    check_shapes(bottom);
    top[0]->reshape(Shape{});
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    sequences_.emplace(shape_);
    log_sums_.reshape(Shape{shape_.steps * shape_.batch});
    log_probabilities_.reshape(Shape{shape_.batch});
    gradient_.set_layout(dtype(), Format::contiguous);
    gradient_.reshape(trains() ? bottom[0]->shape() : Shape{0});
    const Shape& labels = bottom[bottom.size() - 1]->shape();
    most_labels_ = bottom.size() == 2 ? labels.count(1) : labels[0];
  }
  size_t kept_bytes() const override {
    size_t bytes = log_sums_.bytes() + log_probabilities_.bytes() + gradient_.bytes() +
                   for_device_.bytes() + (sequences_ ? sequences_->bytes() : 0);
    for (const CtcAlignment& alignment : alignments_) bytes += alignment.bytes();
    return bytes;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(path_count()) * sizeof(double);
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    read(bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      T* gradient = trains() ? device.overwrite<T>(gradient_) : nullptr;
      const AxisSplit split(bottom[0]->shape(), 2);
      for_each_position(device, split, kGrain,
                        SoftmaxForward<T>{split, x, gradient, device.overwrite<double>(log_sums_)});
      if (device.on_host()) {
        align_all(x, gradient);
      } else {
        align_there(device, x, gradient);
      }
      const double* const log_probabilities = log_probabilities_.read<double>();
      double sum = 0;
      counted_ = 0;
      for (int64_t n = 0; n < shape_.batch; ++n) {
        if (!uses(n)) continue;
        // On a device, that of scores that are no numbers is none.
        if (std::isnan(log_probabilities[n]))
          check_scores(log_sums_.read<double>() + n, first_step(), used_steps(n), n);
        if (std::isinf(log_probabilities[n])) {
          warn(n);
          continue;
        }
        sum -= log_probabilities[n];
        ++counted_;
      }
      top[0]->data.template overwrite<T>()[0] = static_cast<T>(sum / divisor());
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto scale = LossSeed<T>(device, *top[0]).over(divisor());
      write_diff<T>(device, scale, gradient_, bottom[0]->diff);
    });
  }

 protected:
  // The gradient is kept from forward.
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  double divisor() const { return normalization_.divisor(shape_.batch, 1, counted_); }

  /// (L, N) labels stand behind indicators or lengths; alone, they are (N, L).
  void check_shapes(Blobs bottom) const {
    const auto check = [&](const Blob& blob, bool fits, const std::string& needed) {
      if (!fits)
        throw Error("'", blob.name, "' (", blob.shape().str(), ") has to be ", needed,
                    " for the scores '", bottom[0]->name, "' (", bottom[0]->shape().str(), ")");
    };
    const Blob& labels = *bottom[bottom.size() - 1];
    const Shape& shape = labels.shape();
    if (bottom.size() == 2)
      return check(labels, shape.rank() >= 1 && shape[0] == shape_.batch,
                   text("(", shape_.batch, ", labels), a row for each sequence,"));
    check(labels, shape.rank() >= 2 && shape[1] == shape_.batch && shape.count(2) == 1,
          text("(labels, ", shape_.batch, "), a column for each sequence,"));
    const Shape& second = bottom[1]->shape();
    if (bottom.size() == 3) {
      return check(*bottom[1],
                   second.rank() >= 2 && second[0] == shape_.steps && second[1] == shape_.batch &&
                       second.count(2) == 1,
                   text("(", shape_.steps, ", ", shape_.batch,
                        "), one indicator for each step and sequence,"));
    }
    for (const size_t i : {1, 2}) {
      check(*bottom[i], bottom[i]->count() == shape_.batch,
            text(shape_.batch, " lengths, one for each sequence,"));
    }
  }

  void read(Blobs bottom) {
    const int32_t blank = blank_class(blank_, shape_.classes);
    const Tensor& labels = bottom[bottom.size() - 1]->data;
    has_indicators_ = bottom.size() == 3;
    const uint32_t given = param().ctc_loss_param().time_step();
    if (bottom.size() == 2) {
      sequences_->use_steps(given != 0 ? given : shape_.steps);
      sequences_->read_rows(labels, blank);
    } else if (has_indicators_) {
      sequences_->read_indicators(bottom[1]->data);
      sequences_->read_columns(labels, blank);
    } else {
      sequences_->read_lengths(bottom[1]->data);
      sequences_->read_columns(labels, blank, bottom[2]->data);
    }
  }

  /// First and number of the steps of a sequence.
  int64_t first_step() const {
    return static_cast<int64_t>(param().ctc_loss_param().output_delay());
  }
  int64_t used_steps(int64_t n) const {
    return std::max<int64_t>(sequences_->steps(n) - first_step(), 0);
  }
  /// Indicators of an unused column are 0 0 ..., and it has no label.
  bool uses(int64_t n) const {
    if (used_steps(n) == 0 && sequences_->label(n).empty()) return false;
    return !(has_indicators_ && sequences_->label(n).empty() && sequences_->steps(n) <= 1);
  }

  int64_t paths_rows() const { return trains() ? shape_.steps : 2; }
  /// Values of CtcPaths::paths.
  int64_t path_count() const {
    return (trains() ? 2 : 1) * paths_rows() * shape_.batch * (2 * most_labels_ + 1);
  }

  /// What CtcBatch has in the memory of a device: one tensor, which goes there in one piece.
  CtcBatch batch_there(const ComputeDevice& device) {
    const int64_t row = most_labels_, rows = shape_.batch;
    int32_t* const used =
        overwrite_some<int32_t>(ComputeDevice(), for_device_, rows * (2 + 2 * row));
    int32_t *const lengths = used + rows, *const labels = lengths + rows;
    for (int64_t n = 0; n < rows; ++n) {
      const auto label = sequences_->label(n);
      used[n] = static_cast<int32_t>(uses(n) ? used_steps(n) : 0);
      lengths[n] = static_cast<int32_t>(label.size());
      std::copy(label.begin(), label.end(), labels + n * row);
      int32_t *const order = labels + rows * row + n * row, *const end = order + label.size();
      std::iota(order, end, 0);
      std::sort(order, end, [&](int32_t a, int32_t b) {
        return std::pair(label[static_cast<size_t>(a)], a) <
               std::pair(label[static_cast<size_t>(b)], b);
      });
    }
    const int32_t* const there = device.read<int32_t>(for_device_);
    return {shape_.steps,
            rows,
            shape_.classes,
            row,
            first_step(),
            blank_class(blank_, shape_.classes),
            param().ctc_loss_param().ctc_merge_repeated(),
            there,
            there + rows,
            there + 2 * rows,
            there + 2 * rows + rows * row};
  }

  template <class T>
  void align_there(const ComputeDevice& device, const T* x, T* gradient) {
    const CtcBatch of = batch_there(device);
    const double* const log_sums = device.read<double>(log_sums_);
    double* const log_probabilities = device.overwrite<double>(log_probabilities_);
    double* const paths = pass_scratch<double>(device, path_count(), paths_);
    for_each_block(device, (gradient ? 2 : 1) * shape_.batch, of.most_states(), 0,
                   CtcPaths<T>{of, x, log_sums, paths_rows(), paths, log_probabilities});
    if (!gradient) return;
    for_each_block(device, shape_.steps * shape_.batch, kStepThreads, 0,
                   CtcShares<T>{of, x, log_sums, paths, log_probabilities, gradient});
  }

  template <class T>
  void align_all(const T* x, T* gradient) {
    const int32_t blank = blank_class(blank_, shape_.classes);
    const bool merges = param().ctc_loss_param().ctc_merge_repeated();
    alignments_.resize(static_cast<size_t>(omp_get_max_threads()));
    const double* log_sums = log_sums_.read<double>();
    double* const log_probabilities = log_probabilities_.overwrite<double>();
    parallel_for(shape_.batch, 1, [&](int64_t begin, int64_t end) {
      CtcAlignment& alignment = alignments_[static_cast<size_t>(thread_number())];
      for (int64_t n = begin; n < end; ++n) {
        const int64_t first = first_step(), used = uses(n) ? used_steps(n) : 0;
        const int64_t stride = shape_.batch * shape_.classes;
        const int64_t at = first * stride + n * shape_.classes;
        check_scores(log_sums + n, first, used, n);
        const CtcScores<T> scores{x + at, stride, log_sums + first * shape_.batch + n, shape_.batch,
                                  used};
        const double log_probability = alignment.align(scores, sequences_->label(n), blank, merges,
                                                       gradient ? gradient + at : nullptr);
        log_probabilities[n] = log_probability;
        if (gradient == nullptr) continue;
        const bool counts = used > 0 && !std::isinf(log_probability);
        for (int64_t t = 0; t < shape_.steps; ++t) {
          if (counts && t >= first && t < first + used) continue;
          T* const unused = gradient + t * stride + n * shape_.classes;
          std::fill(unused, unused + shape_.classes, T(0));
        }
      }
    });
  }

  void check_scores(const double* log_sums, int64_t first, int64_t used, int64_t n) const {
    for (int64_t t = first; t < first + used; ++t) {
      if (std::isfinite(log_sums[t * shape_.batch])) continue;
      throw Error("the scores of step ", t, " of sequence ", n,
                  " are NaN or infinite; the layer before diverged, or its input is bad")
          .of_sample(n);
    }
  }

  void warn(int64_t n) {
    if (warned_) return;
    warned_ = true;
    const auto count = static_cast<int64_t>(sequences_->label(n).size());
    context().log(Severity::warning,
                  text("layer '", name(), "': sequence ", n, " of the batch has ", used_steps(n),
                       " steps, and no alignment of them gives its label of ", count,
                       " classes; it adds nothing to the loss, and neither do others like it"));
  }

  const int blank_;
  LossNormalization normalization_;
  CtcShape shape_;
  std::optional<CtcSequences> sequences_;
  bool has_indicators_ = false, warned_ = false;
  int64_t counted_ = 0;                             // sequences in the loss of the last forward
  int64_t most_labels_ = 0;                         // L
  std::vector<CtcAlignment> alignments_;            // one a thread
  Tensor log_sums_{Shape{0}, DType::f64};           // (T, N): of the exponentials of the scores
  Tensor log_probabilities_{Shape{0}, DType::f64};  // (N): of the labels
  Tensor gradient_{Shape{0}};  // (T, N, C), where the layer trains: before the division
  Tensor for_device_{Shape{0}, DType::i32};  // see batch_there()
  Tensor paths_{Shape{0}, DType::f64};       // scratch memory of devices that the host can read
};

}  // namespace

void register_ctc_loss(Registry& registry) {
  for (const char* type : {"CTCLoss", "WarpCTCLoss", "CtcLoss"})
    add_two_sided<CtcLossLayer>(registry, type);
}

}  // namespace crema
