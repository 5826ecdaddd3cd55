// CTCLoss: minus the log of the probability of a label sequence. See README.md.
#include <cmath>
#include <optional>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "kit/labels.hpp"
#include "layers/ctc_loss/ctc_alignment.hpp"
#include "layers/ctc_loss/ctc_labels.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least

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

class CtcLossLayer : public Layer {
 public:
  explicit CtcLossLayer(const LayerInit& init)
      : Layer(init), blank_(blank_of(init.param)), normalization_(init.param) {
    check_loss_settings(init, false);
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 4}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  float default_loss_weight(int) const override { return 1; }

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
    losses_.assign(static_cast<size_t>(shape_.batch), 0);
    gradient_.set_layout(dtype(), Format::contiguous);
    gradient_.reshape(trains() ? bottom[0]->shape() : Shape{0});
  }
  size_t kept_bytes() const override {
    size_t bytes = log_sums_.bytes() + gradient_.bytes();
    for (const CtcAlignment& alignment : alignments_) bytes += alignment.bytes();
    return bytes;
  }

  void forward_cpu(Blobs bottom, Blobs top) override {
    read(bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = bottom[0]->data.template host<T>();
      T* gradient = trains() ? gradient_.host_overwrite<T>() : nullptr;
      const AxisSplit split(bottom[0]->shape(), 2);
      for_each_position(Side(), split, kGrain,
                        SoftmaxForward<T>{split, x, gradient, log_sums_.host_overwrite<double>()});
      align_all(x, gradient);
      double sum = 0;
      counted_ = 0;
      for (int64_t n = 0; n < shape_.batch; ++n) {
        const double loss = losses_[static_cast<size_t>(n)];
        if (!uses(n) || std::isinf(loss)) {
          if (uses(n)) warn(n);
          continue;
        }
        sum += loss;
        ++counted_;
      }
      top[0]->data.template host_overwrite<T>()[0] = static_cast<T>(sum / divisor());
    });
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const double weight = static_cast<double>(top[0]->diff.template host<T>()[0]);
      const T scale = static_cast<T>(weight / divisor());
      const T* gradient = gradient_.host<T>();
      T* dx = bottom[0]->diff.template host_overwrite<T>();
      parallel_for(bottom[0]->count(), kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) dx[i] = scale * gradient[i];
      });
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
                   concat("(", shape_.batch, ", labels), a row for each sequence,"));
    check(labels, shape.rank() >= 2 && shape[1] == shape_.batch && shape.count(2) == 1,
          concat("(labels, ", shape_.batch, "), a column for each sequence,"));
    const Shape& second = bottom[1]->shape();
    if (bottom.size() == 3) {
      return check(*bottom[1],
                   second.rank() >= 2 && second[0] == shape_.steps && second[1] == shape_.batch &&
                       second.count(2) == 1,
                   concat("(", shape_.steps, ", ", shape_.batch,
                          "), one indicator for each step and sequence,"));
    }
    for (const size_t i : {1, 2}) {
      check(*bottom[i], bottom[i]->count() == shape_.batch,
            concat(shape_.batch, " lengths, one for each sequence,"));
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

  template <class T>
  void align_all(const T* x, T* gradient) {
    const int32_t blank = blank_class(blank_, shape_.classes);
    const bool merges = param().ctc_loss_param().ctc_merge_repeated();
    alignments_.resize(static_cast<size_t>(omp_get_max_threads()));
    const double* log_sums = log_sums_.host<double>();
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
        losses_[static_cast<size_t>(n)] = -log_probability;
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
                  concat("layer '", name(), "': sequence ", n, " of the batch has ", used_steps(n),
                         " steps, and no alignment of them gives its label of ", count,
                         " classes; it adds nothing to the loss, and neither do others like it"));
  }

  const int blank_;
  LossNormalization normalization_;
  CtcShape shape_;
  std::optional<CtcSequences> sequences_;
  bool has_indicators_ = false, warned_ = false;
  int64_t counted_ = 0;                    // sequences in the loss of the last forward
  std::vector<double> losses_;             // (N)
  std::vector<CtcAlignment> alignments_;   // one a thread
  Tensor log_sums_{Shape{0}, DType::f64};  // (T, N): of the exponentials of the scores
  Tensor gradient_{Shape{0}};              // (T, N, C), where the layer trains: before the division
};

}  // namespace

void register_ctc_loss(Registry& registry) {
  for (const char* type : {"CTCLoss", "WarpCTCLoss", "CtcLoss"}) registry.add<CtcLossLayer>(type);
}

}  // namespace crema
