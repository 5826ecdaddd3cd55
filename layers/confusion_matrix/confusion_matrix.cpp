// ConfusionMatrix: how often each class was taken for each. See README.md.
#include <numeric>
#include <optional>
#include <vector>

#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The class of the greatest score of a position, the first one of equal ones; NaN is never
/// greatest. -1 if the position is ignored or has no greatest score.
template <class T>
struct Predict {
  AxisSplit split;
  const T* scores;
  const int32_t* labels;
  int32_t* predicted;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T* of_position = scores + split.at(i);
    int32_t best = -1;
    for (int32_t c = 0; labels[i] >= 0 && c < split.size; ++c) {
      const T score = of_position[c * split.inner];
      if (score == score && (best < 0 || score > of_position[best * split.inner])) best = c;
    }
    predicted[i] = best;
  }
};

class ConfusionMatrixLayer : public LabelledLayer {
 public:
  std::string host_part() const override { return "counts"; }
  bool host_reads(int /*b*/) const override { return false; }
  bool host_writes() const override { return true; }
  explicit ConfusionMatrixLayer(const LayerInit& init)
      : LabelledLayer(init, init.param.confusion_matrix_param().axis(),
                      init.param.confusion_matrix_param().has_ignore_label()
                          ? std::optional<int>(init.param.confusion_matrix_param().ignore_label())
                          : std::nullopt),
        normalizes_(init.param.confusion_matrix_param().normalize()) {}

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int) const override { return false; }
  /// Counts are sums; shares are of the labels of a row.
  std::optional<MeanUnits> mean_over(int, int64_t index) const override {
    if (!normalizes_) return MeanUnits{.is_sum = true};
    const auto row = counts_.begin() + index / scores().size * scores().size;
    return MeanUnits{static_cast<double>(std::accumulate(row, row + scores().size, int64_t{0}))};
  }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_scores(bottom);
    top[0]->reshape(Shape{scores().size, scores().size});
    predicted_.reshape(Shape{scores().positions()});
    counts_.assign(static_cast<size_t>(scores().size * scores().size), 0);
  }
  size_t kept_bytes() const override { return predicted_.bytes() + counts_.size() * 8; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(device, bottom);
    int32_t* predicted = device.overwrite<int32_t>(predicted_);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, scores().positions(), kElementGrain / scores().size + 1,
               Predict<T>{scores(), device.read<T>(bottom[0]->data), labels, predicted});
      count(top[0]->data.template overwrite<T>());
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// On the host, on either side: one pass over the labels.
  template <class T>
  void count(T* matrix) {
    const int64_t classes = scores().size;
    std::fill(counts_.begin(), counts_.end(), 0);
    const int32_t *label = labels(ComputeDevice()), *predicted = predicted_.read<int32_t>();
    for (int64_t i = 0; i < scores().positions(); ++i) {
      if (label[i] >= 0 && predicted[i] >= 0)
        ++counts_[static_cast<size_t>(label[i] * classes + predicted[i])];
    }
    for (int64_t row = 0; row < classes; ++row) {
      const int64_t* const of_label = counts_.data() + row * classes;
      int64_t all = normalizes_ ? 0 : 1;
      for (int64_t c = 0; normalizes_ && c < classes; ++c) all += of_label[c];
      const double divisor = static_cast<double>(std::max<int64_t>(all, 1));
      for (int64_t c = 0; c < classes; ++c)
        matrix[row * classes + c] = static_cast<T>(static_cast<double>(of_label[c]) / divisor);
    }
  }

  bool normalizes_;
  Tensor predicted_{Shape{0}, DType::i32};  // class a position
  std::vector<int64_t> counts_;             // (classes, classes)
};

}  // namespace

void register_confusion_matrix(Registry& registry) {
  add_two_sided<ConfusionMatrixLayer>(registry, "ConfusionMatrix");
}

}  // namespace crema
