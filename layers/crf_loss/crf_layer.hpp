// What CRFLoss and CRFDecoder have in common: the parameters of a chain, and the best path.
#pragma once

#include <vector>

#include "crema/layer.hpp"
#include "layers/crf_loss/chain.hpp"

namespace crema {

class CrfLayer : public Layer {
 public:
  explicit CrfLayer(const LayerInit& init);
  bool can_propagate(int bottom) const override { return bottom == 0; }
  void setup(Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override;

 protected:
  /// For reshape.
  void read_shape(Blobs bottom) { shape_ = chain_shape(*bottom[0]); }
  int64_t steps() const { return shape_[0]; }
  int64_t batch() const { return shape_[1]; }
  int64_t classes() const { return shape_[2]; }
  /// From a value of a class to that of the next step.
  int64_t stride() const { return shape_[1] * shape_[2]; }

  /// For forward: reads the parameters, and makes a Chain for each thread.
  void begin_pass();
  /// Writes the best paths (T, N), and -1 outside of sequences.
  template <class T>
  void write_paths(const T* x, T* path);
  /// Error if a score of a sequence is NaN or infinite.
  template <class T>
  void check_scores(const T* x, const ChainSequence& sequence) const;

  Parameter* transitions_ = nullptr;              // (C, C)
  Parameter *first_ = nullptr, *last_ = nullptr;  // (C), with boundary_term
  ChainWeights weights_;
  std::vector<Chain> chains_;  // one a thread
  std::vector<ChainSequence> sequences_;

 private:
  Shape shape_;  // (T, N, C)
};

}  // namespace crema
