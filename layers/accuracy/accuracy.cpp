#include "layers/accuracy/accuracy.hpp"

#include <algorithm>
#include <numeric>

#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/accuracy/accuracy_math.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 16384;  // scores that a thread should have at least

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

AccuracyLayer::AccuracyLayer(const LayerInit& init)
    : Layer(init),
      axis_(init.param.accuracy_param().axis()),
      top_k_(init.param.accuracy_param().top_k()) {
  require(top_k_ > 0, "top_k is 0, so no label could be among the best; use 1 or more");
  if (init.param.accuracy_param().has_ignore_label()) ignored_ = init.param.accuracy_param().ignore_label();
}

void AccuracyLayer::reshape(Blobs bottom, Blobs top) {
  const Shape &scores = bottom[0]->shape(), &labels = bottom[1]->shape();
  const int axis = scores.canonical_axis(axis_);
  outer_ = scores.count(0, axis);
  classes_ = scores[axis];
  inner_ = scores.count(axis + 1);
  require(top_k_ <= classes_, "top_k ", top_k_, " exceeds the ", classes_, " classes of '",
          bottom[0]->name, "' (", scores.str(), "); lower it");
  require(outer_ * inner_ == labels.count(), "'", bottom[0]->name, "' (", scores.str(), ") has ",
          outer_ * inner_, " positions beside its class axis ", axis, ", but '", bottom[1]->name,
          "' (", labels.str(), ") has ", labels.count(),
          " labels; give one label for each position");
  top[0]->reshape(Shape{});
  if (top.size() > 1) top[1]->reshape(Shape{classes_});
  hit_.resize(static_cast<size_t>(outer_ * inner_));
  hits_.resize(static_cast<size_t>(classes_));
  occurrences_.resize(static_cast<size_t>(classes_));
}

template <class T>
void AccuracyLayer::count_hits(const T* scores) {
  const int32_t* labels = labels_.data();
  parallel_for(std::ssize(hit_), kGrain / classes_ + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (labels[i] < 0) continue;
      const T* at = scores + i / inner_ * classes_ * inner_ + i % inner_;
      hit_[static_cast<size_t>(i)] = is_among_best(at, classes_, inner_, labels[i], top_k_);
    }
  });
  std::fill(hits_.begin(), hits_.end(), 0);
  std::fill(occurrences_.begin(), occurrences_.end(), 0);
  for (size_t i = 0; i < hit_.size(); ++i) {
    if (labels[i] < 0) continue;
    const auto label = static_cast<size_t>(labels[i]);
    ++occurrences_[label];
    hits_[label] += hit_[i];
  }
}

void AccuracyLayer::forward_cpu(Blobs bottom, Blobs top) {
  labels_.read(bottom[1]->data, inner_, classes_, ignored_);
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    count_hits(bottom[0]->data.host<T>());
    const int64_t hits = std::accumulate(hits_.begin(), hits_.end(), int64_t{0});
    top[0]->data.host_overwrite<T>()[0] = static_cast<T>(share(hits, labels_.valid()));
    if (top.size() < 2) return;
    T* by_class = top[1]->data.host_overwrite<T>();
    for (size_t c = 0; c < hits_.size(); ++c) {
      by_class[c] = static_cast<T>(share(hits_[c], occurrences_[c]));
    }
  });
}

void register_accuracy(Registry& registry);

void register_accuracy(Registry& registry) { registry.add<AccuracyLayer>("Accuracy"); }

}  // namespace crema
