// CTCGreedyDecoder: the classes of the best path, without repetitions and blanks. See README.md.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
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

class CtcGreedyDecoderLayer : public Layer {
 public:
  using Layer::Layer;

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
                    i == 1 ? concat("(", shape_.steps, ", ", shape_.batch, "), indicators")
                           : concat("(labels, ", shape_.batch, "), target sequences"),
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
  }
  size_t kept_bytes() const override { return decoded_.size() * sizeof(int32_t); }

  void forward_cpu(Blobs bottom, Blobs top) override {
    sequences_->use_steps(shape_.steps);
    if (bottom.size() > 1) sequences_->read_indicators(bottom[1]->data);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = bottom[0]->data.template host<T>();
      T* y = top[0]->data.template host_overwrite<T>();
      T* scores = scores_top_ > 0 ? top[scores_top_]->data.template host_overwrite<T>() : nullptr;
      std::fill(y, y + top[0]->count(), T(-1));
      parallel_for(shape_.batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const double score = decode(x, n);
          const std::span<const int32_t> classes = decoded(n);
          for (size_t i = 0; i < classes.size(); ++i)
            y[static_cast<int64_t>(i) * shape_.batch + n] = static_cast<T>(classes[i]);
          if (scores) scores[n] = static_cast<T>(score);
        }
      });
      if (accuracy_top_ > 0)
        top[accuracy_top_]->data.template host_overwrite<T>()[0] =
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
      if (is_nan)
        throw Error("the scores of step ", t, " of sequence ", n, " are NaN").of_sample(n);
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
};

}  // namespace

void register_ctc_greedy_decoder(Registry& registry) {
  registry.add<CtcGreedyDecoderLayer>("CTCGreedyDecoder");
}

}  // namespace crema
