// InfogainLoss: softmax and the logistic losses of all classes, weighted by the label's row of a
// matrix. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/sums.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "model/binary_format.hpp"
#include "model/blob_message.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least

/// What a class weighs for a label.
template <class T>
struct Targets {
  int64_t classes;
  const T* matrix;  // (label, class)
  const T* weight;  // one a class; null: 1
  CREMA_FUNCTOR T at(int64_t label, int64_t c) const {
    const T value = matrix[label * classes + c];
    return weight ? weight[c] * value : value;
  }
};

/// The loss of each position, in double.
template <class T>
struct PositionLoss {
  AxisSplit split;
  const T* x;
  Targets<T> targets;
  const double* log_sum;
  const int32_t* labels;
  double* loss;

  /// What class c adds to position i. A class without weight adds nothing, even if its score is
  /// -infinity.
  CREMA_FUNCTOR double term(int64_t i, int64_t at, int64_t c) const {
    const double weight = static_cast<double>(targets.at(labels[i], c));
    return weight == 0 ? 0 : weight * (log_sum[i] - static_cast<double>(x[at]));
  }
  void on_host(int64_t begin, int64_t end) const {
    if (split.inner > 1) return columns(begin, end);
    for (int64_t i = begin; i < end; ++i) {
      const auto of_class = [=, this](int64_t c) { return term(i, i * split.size + c, c); };
      loss[i] = labels[i] < 0 ? 0 : sum_of_piece(0, split.size, of_class);
    }
  }
  /// In the order of memory.
  void columns(int64_t begin, int64_t end) const {
    std::fill(loss + begin, loss + end, 0.0);
    while (begin < end) {
      const int64_t count = std::min(split.inner - begin % split.inner, end - begin);
      for (int64_t c = 0; c < split.size; ++c) {
        const int64_t at = split.at(begin) + c * split.inner;
        for (int64_t j = 0; j < count; ++j) {
          if (labels[begin + j] >= 0) loss[begin + j] += term(begin + j, at + j, c);
        }
      }
      begin += count;
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    double sum = 0;
    for (int64_t c = lanes.first; labels[i] >= 0 && c < split.size; c += lanes.count) {
      sum += term(i, split.at(i) + c * split.inner, c);
    }
    sum = lanes.sum(sum);
    if (lanes.first == 0) loss[i] = sum;
  }
};

template <class T>
struct RowSum {
  Targets<T> targets;
  T* sums;
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      sums[row] = static_cast<T>(sum_of_piece(0, targets.classes, [=, this](int64_t c) {
        return static_cast<double>(targets.at(row, c));
      }));
    }
  }
  CREMA_FUNCTOR void operator()(int64_t row) const {
    double sum = 0;
    for (int64_t c = 0; c < targets.classes; ++c) sum += static_cast<double>(targets.at(row, c));
    sums[row] = static_cast<T>(sum);
  }
};

/// dx = scale * (sum of the label's row * probability - weight).
template <class T>
struct ScoreGradient {
  AxisSplit split;
  SeedFactor<T> scale;
  const T *probability, *row_sums;
  Targets<T> targets;
  const int32_t* labels;
  T* dx;

  CREMA_FUNCTOR T gradient(int64_t at, int64_t c, int32_t label) const {
    if (label < 0) return 0;
    return scale * (row_sums[label] * probability[at] - targets.at(label, c));
  }
  void on_host(int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t count = std::min(split.inner - begin % split.inner, end - begin);
      for (int64_t c = 0; c < split.size; ++c) {
        const int64_t at = split.at(begin) + c * split.inner;
        for (int64_t j = 0; j < count; ++j) dx[at + j] = gradient(at + j, c, labels[begin + j]);
      }
      begin += count;
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      dx[at] = gradient(at, c, labels[i]);
    }
  }
};

class InfogainLossLayer : public LabelLoss {
 public:
  std::string host_part() const override {
    return weights_.by_frequency() ? "weights of classes" : "";
  }
  bool host_reads(int b) const override { return b == 1; }
  bool host_writes() const override { return false; }
  explicit InfogainLossLayer(const LayerInit& init)
      : LabelLoss(init, init.param.infogain_loss_param().axis(), {.class_weights = true}),
        weights_(init) {}

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 3, .min_tops = 1, .max_tops = 2};
  }

  void setup(Blobs bottom, Blobs) override {
    is_bottom_ = bottom.size() > 2;
    const InfogainLossParameter& settings = param().infogain_loss_param();
    if (!is_bottom_) {
      if (!settings.has_source())
        throw Error(
            "has no matrix; give it as the third bottom, or infogain_loss_param { source: } with "
            "the file of a BlobProto");
      read_matrix(settings.source());
    } else if (settings.has_source()) {
      context().log(Severity::warning,
                    text("layer '", name(), "': the third bottom is the matrix; source '",
                         settings.source(), "' has no effect"));
    }
  }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_scores(bottom);
    const int64_t classes = scores().size;
    const Shape& shape = matrix(bottom).shape();
    if (shape.count() != classes * classes)
      throw Error("the matrix ", matrix_name(bottom), " (", shape.str(), ") has ", shape.count(),
                  " values, but the ", classes, " classes of '", bottom[0]->name, "' (",
                  bottom[0]->shape().str(), ") need ", classes, "x", classes,
                  ": a row for each label");
    weights_.reshape(*bottom[0], classes, dtype());
    top[0]->reshape(Shape{});
    if (top.size() > 1) top[1]->reshape(bottom[0]->shape());
    if (!sums_each_pass()) sum_rows(ComputeDevice(), matrix_);
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    for (Tensor* tensor : {&log_sum_, &loss_}) tensor->reshape(Shape{scores().positions()});
    if (!trains()) return;
    probability_.reshape(bottom[0]->shape());
    probability_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override {
    return log_sum_.bytes() + loss_.bytes() + probability_.bytes() + row_sums_.bytes() +
           weights_.bytes() + (is_bottom_ ? 0 : matrix_.bytes());
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {6 * n, 3 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(device, bottom);
    if (weights_.by_frequency())
      weights_.count(LabelLoss::labels(ComputeDevice()), scores().positions());
    Tensor* shown = top.size() > 1 ? &top[1]->data : nullptr;
    Tensor* kept = trains() ? &probability_ : shown;
    double *log_sum = device.overwrite<double>(log_sum_), *loss = device.overwrite<double>(loss_);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      for_each_position(
          device, scores(), kGrain,
          SoftmaxForward<T>{scores(), x, kept ? device.overwrite<T>(*kept) : nullptr, log_sum});
      for_each_position(
          device, scores(), kGrain,
          PositionLoss<T>{scores(), x, targets<T>(device, matrix(bottom)), log_sum, labels, loss});
      sum(device, scores().positions(), kElementGrain, Value<double>{loss}, 1 / divisor(),
          device.overwrite<T>(top[0]->data));
    });
    if (shown && shown != kept) copy(device, *kept, *shown);
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    if (sums_each_pass()) sum_rows(device, matrix(bottom));
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      for_each_position(
          device, scores(), 2 * kGrain,
          ScoreGradient<T>{scores(), seed.over(divisor()), device.read<T>(probability_),
                           device.read<T>(row_sums_), targets<T>(device, matrix(bottom)),
                           labels(device), device.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  // Probabilities and labels are kept here.
  BackwardReads reference_backward_reads() const override {
    return {is_bottom_ ? IndexSet{2} : IndexSet(false), false};
  }

 private:
  const Tensor& matrix(Blobs bottom) const { return is_bottom_ ? bottom[2]->data : matrix_; }
  std::string matrix_name(Blobs bottom) const {
    return text("'", is_bottom_ ? bottom[2]->name : param().infogain_loss_param().source(), "'");
  }

  /// Whether the sums of rows are those of one batch.
  bool sums_each_pass() const { return is_bottom_ || weights_.by_frequency(); }
  template <class T>
  Targets<T> targets(const ComputeDevice& device, const Tensor& matrix) const {
    return {scores().size, device.read<T>(matrix), weights_.weight<T>(device)};
  }

  void read_matrix(const std::string& path) {
    BlobProto blob;
    read_binary_proto(path, blob);
    matrix_ = Tensor(Shape{blob_count(blob)}, dtype());
    load_values(blob, matrix_);
    for (int64_t i = 0; i < matrix_.count(); ++i) {
      if (!std::isfinite(matrix_.at(i)))
        throw Error("value ", i, " of the matrix '", path, "' is ", matrix_.at(i),
                    "; weights have to be finite");
    }
  }

  void sum_rows(const ComputeDevice& device, const Tensor& matrix) {
    row_sums_.reshape(Shape{scores().size});
    row_sums_.set_layout(dtype(), Format::contiguous);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, scores().size, kElementGrain / scores().size + 1,
               RowSum<T>{targets<T>(device, matrix), device.overwrite<T>(row_sums_)});
    });
  }

  ClassWeights weights_;
  bool is_bottom_ = false;                // the matrix is bottom 2
  Tensor matrix_;                         // of `source`
  Tensor row_sums_{Shape{0}};             // of the matrix, one a label
  Tensor log_sum_{Shape{0}, DType::f64};  // of the sum of exponentials, one a position
  Tensor loss_{Shape{0}, DType::f64};     // one a position
  Tensor probability_;                    // of the scores' shape, where the layer trains
};

}  // namespace

void register_infogain_loss(Registry& registry) {
  add_two_sided<InfogainLossLayer>(registry, "InfogainLoss");
}

}  // namespace crema
