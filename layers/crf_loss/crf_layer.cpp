#include "layers/crf_loss/crf_layer.hpp"

#include <algorithm>
#include <cmath>

#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layers/crf_loss/crf_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {

CrfLayer::CrfLayer(const LayerInit& init) : TwoSidedLayer(init) {
  const CRFLossParameter& settings = init.param.crf_loss_param();
  if (settings.has_boundary_filler() && !settings.boundary_term())
    throw Error("boundary_filler is set, but boundary_term is false; set it to true");
}

void CrfLayer::setup(Blobs bottom, Blobs) {
  const CRFLossParameter& settings = param().crf_loss_param();
  read_shape(bottom);
  transitions_ = &add_param(Shape{classes(), classes()}, Filler(settings.transition_filler()));
  if (!settings.boundary_term()) return;
  const Filler filler(settings.boundary_filler());
  first_ = &add_param(Shape{classes()}, filler);
  last_ = &add_param(Shape{classes()}, filler);
}

std::string CrfLayer::device_refusal(Blobs bottom) const {
  const int64_t classes = bottom[0]->shape()[2], most = kMostShared / 2;
  if (classes <= most) return {};
  return text("takes at most ", most, " classes, not ", classes);
}

size_t CrfLayer::kept_bytes() const {
  size_t bytes = weights_.bytes() + sequences_.capacity() * sizeof(ChainSequence) +
                 values_.bytes() + for_device_.bytes();
  for (const Chain& chain : chains_) bytes += chain.bytes();
  return bytes;
}

void CrfLayer::begin_pass() {
  weights_.set(transitions_->data, first_ ? &first_->data : nullptr,
               last_ ? &last_->data : nullptr);
  chains_.resize(static_cast<size_t>(omp_get_max_threads()));
}

template <class T>
void CrfLayer::check_scores(const T* x, const ChainSequence& sequence) const {
  for (int64_t t = 0; t < sequence.steps; ++t) {
    const T* const of_step = x + t * stride();
    for (int64_t c = 0; c < classes(); ++c) {
      if (std::isfinite(of_step[c])) continue;
      throw Error("the score ", of_step[c], " of class ", c, " at step ", sequence.first + t,
                  ", sequence ", sequence.column, " is no finite number")
          .of_sample(sequence.column);
    }
  }
}

ChainBatch CrfLayer::batch_there(const ComputeDevice& device) {
  const int64_t positions = steps() * batch(), count = std::ssize(sequences_);
  // Room for as many sequences as there may be: their number changes from batch to batch.
  int32_t* const sequence_of = overwrite<int32_t>(ComputeDevice(), for_device_, 3 * positions);
  int32_t *const starts = sequence_of + positions, *const lengths = starts + positions;
  std::fill(sequence_of, starts, -1);
  for (int64_t q = 0; q < count; ++q) {
    const ChainSequence& of = sequences_[static_cast<size_t>(q)];
    const int64_t start = of.first * batch() + of.column;
    starts[q] = static_cast<int32_t>(start);
    lengths[q] = static_cast<int32_t>(of.steps);
    for (int64_t t = 0; t < of.steps; ++t)
      sequence_of[start + t * batch()] = static_cast<int32_t>(q);
  }
  const int32_t* const there = device.read<int32_t>(for_device_);
  return {positions, batch(), classes(), count, there, there + positions, there + 2 * positions};
}

int64_t CrfLayer::scale_count() const { return ChainScales::count(classes()); }

template <class T>
ChainScales CrfLayer::scales_there(const ComputeDevice& device, bool powers, double* memory) const {
  const ChainScales scales{classes(), memory};
  const T* transitions = device.read<T>(transitions_->data);
  for_each(device, classes(), kPassGrain,
           FindLargest<T>{scales, transitions, read_parameter<T>(device, first_),
                          read_parameter<T>(device, last_)});
  if (powers)
    for_each(device, classes() * classes(), kPassGrain, FindPowers<T>{scales, transitions});
  return scales;
}

template <class T>
void CrfLayer::check_values(const Tensor& values, const Tensor& scores) {
  const double* const of_sequences = values.read<double>();
  const int64_t count = std::ssize(sequences_);
  if (std::none_of(of_sequences, of_sequences + count, [](double v) { return std::isnan(v); }))
    return;
  begin_pass();
  const T* x = scores.read<T>();
  for (const ChainSequence& of : sequences_)
    check_scores(x + (of.first * batch() + of.column) * classes(), of);
}

template <class T>
void CrfLayer::write_paths_there(const ComputeDevice& device, const ChainBatch& of,
                                 const ChainScales& scales, const Tensor& scores, double* memory,
                                 double* checks, Tensor& path) const {
  fill(device, path, -1, false);
  for_each_block(
      device, of.count, of.classes, 2 * of.classes,
      BestPaths<T>{of, scales, device.read<T>(scores), device.read<T>(transitions_->data),
                   reinterpret_cast<int32_t*>(memory), checks, device.change<T>(path)});
}

template <class T>
void CrfLayer::write_paths(const Tensor& scores, Tensor& path) {
  const T* const x = scores.read<T>();
  T* const to = path.overwrite<T>();
  std::fill(to, to + steps() * batch(), T(-1));
  parallel_for(std::ssize(sequences_), 1, [&](int64_t begin, int64_t end) {
    Chain& chain = chains_[static_cast<size_t>(thread_number())];
    for (int64_t i = begin; i < end; ++i) {
      const ChainSequence& of = sequences_[static_cast<size_t>(i)];
      const int64_t at = of.first * batch() + of.column;
      check_scores(x + at * classes(), of);
      chain.best_path(weights_, x + at * classes(), stride(), of.steps, to + at, batch());
    }
  });
}

template void CrfLayer::check_scores(const float*, const ChainSequence&) const;
template void CrfLayer::check_scores(const double*, const ChainSequence&) const;
template ChainScales CrfLayer::scales_there<float>(const ComputeDevice&, bool, double*) const;
template ChainScales CrfLayer::scales_there<double>(const ComputeDevice&, bool, double*) const;
template void CrfLayer::check_values<float>(const Tensor&, const Tensor&);
template void CrfLayer::check_values<double>(const Tensor&, const Tensor&);
template void CrfLayer::write_paths<float>(const Tensor&, Tensor&);
template void CrfLayer::write_paths<double>(const Tensor&, Tensor&);
template void CrfLayer::write_paths_there<float>(const ComputeDevice&, const ChainBatch&,
                                                 const ChainScales&, const Tensor&, double*,
                                                 double*, Tensor&) const;
template void CrfLayer::write_paths_there<double>(const ComputeDevice&, const ChainBatch&,
                                                  const ChainScales&, const Tensor&, double*,
                                                  double*, Tensor&) const;

}  // namespace crema
