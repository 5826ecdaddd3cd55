// CTCGreedyDecoder: the classes of the best path, without repetitions and blanks. See README.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/dispatch.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/ctc_loss/ctc_labels.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// How many classes have to be inserted, removed or replaced to make one sequence the other. `row`
/// is scratch memory.
int64_t edit_distance(std::span<const int32_t> a, std::span<const int32_t> b,
                      std::vector<int64_t>& row) {
  row.resize(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// On a device.

/// Item (t, n): the best class, the lowest of equal ones; -1 if a score is NaN.
template <class T>
struct BestClass {
  int64_t classes;
  const T* x;
  int32_t* best;  // (T, N)
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t item, const Lanes& lanes) const {
    const T* const scores = x + item * classes;
    double most = -std::numeric_limits<double>::infinity(), is_nan = 0;
    for (int64_t c = lanes.first; c < classes; c += lanes.count) {
      const auto score = static_cast<double>(scores[c]);
      most = most < score ? score : most;
      if (score != score) is_nan = 1;
    }
    most = lanes.max(most);
    is_nan = lanes.max(is_nan);
    // max() of minus the index is the lowest one.
    double lowest = -static_cast<double>(classes);
    for (int64_t c = lanes.first; c < classes; c += lanes.count) {
      const double index = -static_cast<double>(c);
      if (static_cast<double>(scores[c]) == most && index > lowest) lowest = index;
    }
    lowest = lanes.max(lowest);
    if (lanes.first == 0) best[item] = is_nan > 0 ? -1 : static_cast<int32_t>(-lowest);
  }
};

/// Item n: the sequence, each lane taking steps that lie side by side. scores[n]: minus the sum of
/// the best values; NaN if a step of the sequence has NaN. lanes.shared: one for each lane.
template <class T>
struct MergeClasses {
  int64_t steps, batch, classes;
  int32_t blank;
  bool merges;
  const int32_t *used, *best;  // (N), (T, N)
  const T* x;
  T* y;  // (T, N)
  double* scores;

  CREMA_FUNCTOR bool is_kept(int64_t t, int64_t n) const {
    const int32_t here = best[t * batch + n];
    return here != blank && !(merges && t > 0 && here == best[(t - 1) * batch + n]);
  }
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t n, const Lanes& lanes) const {
    const int64_t each = (used[n] + lanes.count - 1) / lanes.count;
    const int64_t begin = lanes.first * each;
    const int64_t end = begin + each < used[n] ? begin + each : used[n];
    double sum = 0, kept = 0, bad = 0;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t position = t * batch + n;
      if (best[position] < 0) {
        bad = 1;
        continue;
      }
      sum -= static_cast<double>(x[position * classes + best[position]]);
      kept += is_kept(t, n) ? 1 : 0;
    }
    lanes.shared[lanes.first] = kept;
    sum = lanes.sum(sum);
    bad = lanes.max(bad);
    lanes.wait();
    if (lanes.first == 0) scores[n] = bad > 0 ? std::numeric_limits<double>::quiet_NaN() : sum;
    int64_t at = 0, all = 0;
    for (int64_t lane = 0; lane < lanes.count; ++lane) {
      if (lane == lanes.first) at = all;
      all += static_cast<int64_t>(lanes.shared[lane]);
    }
    for (int64_t t = begin; t < end; ++t) {
      if (is_kept(t, n)) y[at++ * batch + n] = static_cast<T>(best[t * batch + n]);
    }
    for (int64_t t = all + lanes.first; t < steps; t += lanes.count) y[t * batch + n] = T(-1);
  }
};

class CtcGreedyDecoderLayer : public TwoSidedLayer {
 public:
  std::string host_part() const override { return "check of indicators and scores"; }
  bool host_reads(int b) const override { return b > 0; }
  bool host_writes() const override { return false; }
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override {
    return {.min_bottoms = 1, .max_bottoms = 3, .min_tops = 1, .max_tops = 3};
  }
  bool can_propagate(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }

  void reshape(Blobs bottom, Blobs top) override {
    shape_ = CtcShape::of(*bottom[0]);
    blank_class(blank(), shape_.classes);
    const bool has_targets = bottom.size() == 3;
    if (top.size() == 3 && !has_targets)
      throw Error("the third top is the accuracy, and there are no target sequences; give them as ",
                  "the third bottom");
    for (size_t i = 1; i < bottom.size(); ++i) {
      const Shape& shape = bottom[i]->shape();
      const bool fits = shape.rank() >= 2 && shape[1] == shape_.batch && shape.count(2) == 1 &&
                        (i == 2 || shape[0] == shape_.steps);
      if (!fits)
        throw Error("'", bottom[i]->name, "' (", shape.str(), ") has to be ",
                    i == 1 ? text("(", shape_.steps, ", ", shape_.batch, "), indicators")
                           : text("(labels, ", shape_.batch, "), target sequences"),
                    " for the scores '", bottom[0]->name, "' (", bottom[0]->shape().str(), ")");
    }
    scores_top_ = top.size() == 3 || (top.size() == 2 && !has_targets) ? 1 : 0;
    accuracy_top_ = has_targets && top.size() > 1 ? top.size() - 1 : 0;
    top[0]->reshape(Shape{shape_.steps, shape_.batch});
    if (scores_top_ > 0) top[scores_top_]->reshape(Shape{shape_.batch});
    if (accuracy_top_ > 0) top[accuracy_top_]->reshape(Shape{});
  }
  void prepare_reference(Blobs, Blobs) override {
    sequences_.emplace(shape_);
    decoded_.assign(static_cast<size_t>(shape_.steps * shape_.batch), 0);
    counts_.assign(static_cast<size_t>(shape_.batch), 0);
    scores_.reshape(Shape{shape_.batch});
  }
  size_t kept_bytes() const override {
    return decoded_.capacity() * sizeof(int32_t) +
           (counts_.capacity() + row_.capacity()) * sizeof(int64_t) + used_.bytes() +
           best_.bytes() + scores_.bytes() + (sequences_ ? sequences_->bytes() : 0);
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    sequences_->use_steps(shape_.steps);
    if (bottom.size() > 1) sequences_->read_indicators(bottom[1]->data);
    dispatch_float(dtype(), [&]<class T>(T) {
      if (device.on_host()) {
        decode_all(bottom[0]->data.template read<T>(), top[0]->data.template overwrite<T>());
      } else {
        decode_there<T>(device, bottom[0]->data, top[0]->data);
      }
      if (scores_top_ > 0) {
        const double* const scores = scores_.read<double>();
        T* const to = top[scores_top_]->data.template overwrite<T>();
        for (int64_t n = 0; n < shape_.batch; ++n) to[n] = static_cast<T>(scores[n]);
      }
      if (accuracy_top_ == 0) return;
      if (!device.on_host()) read_decoded(top[0]->data.template read<T>());
      top[accuracy_top_]->data.template overwrite<T>()[0] =
          static_cast<T>(accuracy(bottom[2]->data));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  int blank() const { return param().ctc_decoder_param().blank_index(); }
  std::span<const int32_t> decoded(int64_t n) const {
    return {decoded_.data() + n * shape_.steps,
            static_cast<size_t>(counts_[static_cast<size_t>(n)])};
  }

  template <class T>
  void decode_all(const T* x, T* y) {
    std::fill(y, y + shape_.steps * shape_.batch, T(-1));
    double* const scores = scores_.overwrite<double>();
    parallel_for(shape_.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        scores[n] = decode(x, n);
        const std::span<const int32_t> classes = decoded(n);
        for (size_t i = 0; i < classes.size(); ++i)
          y[static_cast<int64_t>(i) * shape_.batch + n] = static_cast<T>(classes[i]);
      }
    });
  }

  /// The same on a device.
  template <class T>
  void decode_there(const ComputeDevice& device, const Tensor& scores, Tensor& sequences) {
    constexpr int64_t kThreads = 256;
    resize<int32_t>(used_, shape_.batch);
    int32_t* const used = used_.overwrite<int32_t>();
    for (int64_t n = 0; n < shape_.batch; ++n) used[n] = static_cast<int32_t>(sequences_->steps(n));
    resize<int32_t>(best_, shape_.steps * shape_.batch);
    const T* const x = device.read<T>(scores);
    int32_t* const best = device.overwrite<int32_t>(best_);
    for_each_block(device, best_.count(), shape_.classes, 0, BestClass<T>{shape_.classes, x, best});
    for_each_block(
        device, shape_.batch, kThreads, kThreads,
        MergeClasses<T>{
            shape_.steps, shape_.batch, shape_.classes, blank_class(blank(), shape_.classes),
            param().ctc_decoder_param().ctc_merge_repeated(), device.read<int32_t>(used_), best, x,
            device.overwrite<T>(sequences), device.overwrite<double>(scores_)});
    const double* const found = scores_.read<double>();
    for (int64_t n = 0; n < shape_.batch; ++n) {
      // Infinite scores may give NaN too.
      for (int64_t t = 0; std::isnan(found[n]) && t < sequences_->steps(n); ++t) {
        if (best_.read<int32_t>()[t * shape_.batch + n] < 0) refuse(t, n);
      }
    }
  }

  /// decoded() from top 0.
  template <class T>
  void read_decoded(const T* y) {
    for (int64_t n = 0; n < shape_.batch; ++n) {
      int64_t& count = counts_[static_cast<size_t>(n)];
      for (count = 0; count < shape_.steps && y[count * shape_.batch + n] >= T(0); ++count)
        decoded_[static_cast<size_t>(n * shape_.steps + count)] =
            static_cast<int32_t>(y[count * shape_.batch + n]);
    }
  }

  [[noreturn]] static void refuse(int64_t t, int64_t n) {
    throw Error("the scores of step ", t, " of sequence ", n, " are NaN").of_sample(n);
  }

  /// Decodes sequence n. Returns minus the sum of the best scores.
  template <class T>
  double decode(const T* x, int64_t n) {
    const int32_t none = blank_class(blank(), shape_.classes);
    const bool merges = param().ctc_decoder_param().ctc_merge_repeated();
    int32_t* const out = decoded_.data() + n * shape_.steps;
    int64_t count = 0;
    double score = 0;
    int32_t before = -1;
    for (int64_t t = 0; t < sequences_->steps(n); ++t) {
      const T* of_step = x + (t * shape_.batch + n) * shape_.classes;
      bool is_nan = false;
      for (int64_t c = 0; c < shape_.classes; ++c) is_nan |= std::isnan(of_step[c]);
      const auto best =
          static_cast<int32_t>(std::max_element(of_step, of_step + shape_.classes) - of_step);
      if (is_nan) refuse(t, n);
      score -= static_cast<double>(of_step[best]);
      if (best != none && !(merges && best == before)) out[count++] = best;
      before = best;
    }
    counts_[static_cast<size_t>(n)] = count;
    return score;
  }

  /// 1 less the mean edit distance from the targets, as a share of the longer sequence.
  double accuracy(const Tensor& targets) {
    sequences_->read_columns(targets, blank_class(blank(), shape_.classes));
    double wrong = 0;
    for (int64_t n = 0; n < shape_.batch; ++n) {
      const std::span<const int32_t> target = sequences_->label(n);
      const size_t longest = std::max(target.size(), decoded(n).size());
      if (longest > 0)
        wrong += static_cast<double>(edit_distance(target, decoded(n), row_)) /
                 static_cast<double>(longest);
    }
    return 1 - wrong / static_cast<double>(std::max<int64_t>(shape_.batch, 1));
  }

  CtcShape shape_;
  size_t scores_top_ = 0, accuracy_top_ = 0;  // 0: there is none
  std::optional<CtcSequences> sequences_;
  std::vector<int32_t> decoded_;  // (N, T), of which each sequence has the first ones
  std::vector<int64_t> counts_;   // (N)
  std::vector<int64_t> row_;
  Tensor scores_{Shape{0}, DType::f64};  // (N)
  Tensor used_{Shape{0}, DType::i32};    // (N): of a device
  Tensor best_{Shape{0}, DType::i32};    // (T, N): the same
};

}  // namespace

void register_ctc_greedy_decoder(Registry& registry) {
  add_two_sided<CtcGreedyDecoderLayer>(registry, "CTCGreedyDecoder");
}

}  // namespace crema
