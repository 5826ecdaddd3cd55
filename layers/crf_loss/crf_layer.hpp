// What CRFLoss and CRFDecoder have in common: the parameters of a chain, and the best path.
#pragma once

#include <vector>

#include "layer_support/two_sided.hpp"
#include "layers/crf_loss/chain.hpp"

namespace crema {

struct ChainBatch;
struct ChainScales;

class CrfLayer : public TwoSidedLayer {
 public:
  explicit CrfLayer(const LayerInit& init);
  bool can_propagate(int bottom) const override { return bottom == 0; }
  void setup(Blobs bottom, Blobs top) override;
  std::string device_refusal(Blobs bottom) const override;
  size_t kept_bytes() const override;

 protected:
  /// For reshape.
  void read_shape(Blobs bottom) { shape_ = chain_shape(*bottom[0]); }
  int64_t steps() const { return shape_[0]; }
  int64_t batch() const { return shape_[1]; }
  int64_t classes() const { return shape_[2]; }
  /// From a value of a class to that of the next step.
  int64_t stride() const { return shape_[1] * shape_[2]; }

  /// For forward on the host: reads the parameters, and makes a Chain for each thread.
  void begin_pass();
  /// Writes the best paths (T, N), and -1 outside of sequences. On the host, after begin_pass().
  template <class T>
  void write_paths(const Tensor& scores, Tensor& path);
  /// For forward on a device: sequences_ in its memory, and the parameters in double, which take
  /// scale_count() values of scratch memory; `powers`: with those of the transitions.
  ChainBatch batch_there(const ComputeDevice& device);
  int64_t scale_count() const;
  template <class T>
  ChainScales scales_there(const ComputeDevice& device, bool powers, double* memory) const;
  /// write_paths() on a device. Takes from_count() values of scratch memory. `checks` (sequences)
  /// get NaN where a score or parameter is no number.
  template <class T>
  void write_paths_there(const ComputeDevice& device, const ChainBatch& of,
                         const ChainScales& scales, const Tensor& scores, double* memory,
                         double* checks, Tensor& path) const;
  int64_t from_count() const { return (steps() * stride() + 1) / 2; }
  /// Throws the Error of bad scores or parameters if a value is NaN: those of the sequences that a
  /// device has computed.
  template <class T>
  void check_values(const Tensor& values, const Tensor& scores);
  /// Error if a score of a sequence is NaN or infinite.
  template <class T>
  void check_scores(const T* x, const ChainSequence& sequence) const;

  Parameter* transitions_ = nullptr;              // (C, C)
  Parameter *first_ = nullptr, *last_ = nullptr;  // (C), with boundary_term
  ChainWeights weights_;
  std::vector<Chain> chains_;  // one a thread
  std::vector<ChainSequence> sequences_;
  Tensor values_{Shape{0}, DType::f64};   // of a device: one a sequence; (T, N) have room
  Tensor scratch_{Shape{0}, DType::f64};  // of devices that the host can read

 private:
  Shape shape_;                              // (T, N, C)
  Tensor for_device_{Shape{0}, DType::i32};  // see batch_there()
};

}  // namespace crema
