#include "layers/crf_loss/crf_layer.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "proto/layer.pb.h"

namespace crema {

CrfLayer::CrfLayer(const LayerInit& init) : Layer(init) {
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

size_t CrfLayer::kept_bytes() const {
  size_t bytes = 0;
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

template <class T>
void CrfLayer::write_paths(const T* x, T* path) {
  std::fill(path, path + steps() * batch(), T(-1));
  parallel_for(static_cast<int64_t>(sequences_.size()), 1, [&](int64_t begin, int64_t end) {
    Chain& chain = chains_[static_cast<size_t>(thread_number())];
    for (int64_t i = begin; i < end; ++i) {
      const ChainSequence& of = sequences_[static_cast<size_t>(i)];
      const int64_t at = of.first * batch() + of.column;
      check_scores(x + at * classes(), of);
      chain.best_path(weights_, x + at * classes(), stride(), of.steps, path + at, batch());
    }
  });
}

template void CrfLayer::check_scores(const float*, const ChainSequence&) const;
template void CrfLayer::check_scores(const double*, const ChainSequence&) const;
template void CrfLayer::write_paths(const float*, float*);
template void CrfLayer::write_paths(const double*, double*);

}  // namespace crema
