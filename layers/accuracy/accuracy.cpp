// Accuracy: the share of positions whose label is among the best scores. See README.md.
#include <optional>
#include <vector>

#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Whether a position's label is among the top_k of its scores. Equal scores count as better ones,
/// and NaN is never right; nor is a position that is ignored.
template <class T>
struct IsHit {
  AxisSplit split;
  int64_t top_k;
  const T* scores;
  const int32_t* labels;
  int32_t* hit;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    hit[i] = 0;
    if (labels[i] < 0) return;
    const T* of_position = scores + split.at(i);
    const T own = of_position[labels[i] * split.inner];
    int64_t not_worse = 0;  // its own included
    for (int64_t c = 0; c < split.size; ++c) not_worse += of_position[c * split.inner] >= own;
    hit[i] = own == own && not_worse <= top_k;
  }
};

struct Hit {
  const int32_t* hit;
  CREMA_FUNCTOR double operator()(int64_t i) const { return hit[i]; }
};

/// Hits become their share of the labels that count, whose number a device knows.
template <class T>
struct DivideHits {
  const double* count;
  T* hits;
  CREMA_FUNCTOR void operator()(int64_t) const {
    *hits = static_cast<T>(static_cast<double>(*hits) / (*count > 1 ? *count : 1));
  }
};

class AccuracyLayer : public LabelledLayer {
 public:
  std::string host_part() const override { return by_class_ ? "counts by class" : ""; }
  bool host_reads(int /*b*/) const override { return false; }
  bool host_writes() const override { return false; }
  explicit AccuracyLayer(const LayerInit& init)
      : LabelledLayer(init, init.param.accuracy_param().axis(),
                      init.param.accuracy_param().has_ignore_label()
                          ? std::optional<int>(init.param.accuracy_param().ignore_label())
                          : std::nullopt),
        top_k_(init.param.accuracy_param().top_k()) {
    if (top_k_ <= 0) throw Error("top_k is 0, so no label could be among the best; use 1 or more");
  }

  bool can_propagate(int) const override { return false; }
  /// Of all labels, or of a class.
  std::optional<MeanUnits> mean_over(int top, int64_t index) const override {
    return MeanUnits{
        static_cast<double>(top == 0 ? valid_labels() : occurrences_[static_cast<size_t>(index)])};
  }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_scores(bottom);
    if (top_k_ > scores().size)
      throw Error("top_k ", top_k_, " exceeds the ", scores().size, " classes of '",
                  bottom[0]->name, "' (", bottom[0]->shape().str(), "); lower it");
    top[0]->reshape(Shape{});
    by_class_ = top.size() > 1;
    if (by_class_) top[1]->reshape(Shape{scores().size});
    hit_.reshape(Shape{scores().positions()});
  }
  size_t kept_bytes() const override { return hit_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(device, bottom);
    int32_t* hit = device.overwrite<int32_t>(hit_);
    const int64_t positions = scores().positions();
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      for_each(device, positions, kElementGrain / scores().size + 1,
               IsHit<T>{scores(), top_k_, x, labels, hit});
      const Tensor* const valid = device_valid_labels();
      T* const share = device.overwrite<T>(top[0]->data);
      sum(device, positions, kElementGrain, Hit{hit},
          valid != nullptr ? 1.0 : 1 / static_cast<double>(std::max<int64_t>(valid_labels(), 1)),
          share);
      if (valid != nullptr)
        for_each(device, 1, 1, DivideHits<T>{device.read<double>(*valid), share});
      if (top.size() > 1) write_by_class(top[1]->data.template overwrite<T>());
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// Counted on the host, on either side: one pass over the labels.
  template <class T>
  void write_by_class(T* share) {
    hits_.assign(static_cast<size_t>(scores().size), 0);
    occurrences_.assign(hits_.size(), 0);
    const int32_t *label = labels(ComputeDevice()), *hit = hit_.read<int32_t>();
    for (int64_t i = 0; i < scores().positions(); ++i) {
      if (label[i] < 0) continue;
      hits_[static_cast<size_t>(label[i])] += hit[i];
      ++occurrences_[static_cast<size_t>(label[i])];
    }
    for (size_t c = 0; c < hits_.size(); ++c) {
      const double all = static_cast<double>(std::max<int64_t>(occurrences_[c], 1));
      share[c] = static_cast<T>(static_cast<double>(hits_[c]) / all);
    }
  }

  int64_t top_k_;
  bool by_class_ = false;                    // top 1 is there
  Tensor hit_{Shape{0}, DType::i32};         // 0 or 1 a position
  std::vector<int64_t> hits_, occurrences_;  // one a class
};

}  // namespace

void register_accuracy(Registry& registry) { add_two_sided<AccuracyLayer>(registry, "Accuracy"); }

}  // namespace crema
