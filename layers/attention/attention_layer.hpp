// The layer: what its engines share. Its passes are in attention.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/takes_parts.hpp"
#include "crema/random.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/attention/blocked_attention.hpp"

namespace crema {

class AttentionLayer : public TwoSidedLayer, public TakesParts {
 public:
  explicit AttentionLayer(const LayerInit& init);
  ~AttentionLayer() override;

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 4}; }
  bool can_propagate(int bottom) const override { return bottom < masks(); }
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  size_t kept_bytes() const override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  void prepare_device(Blobs, Blobs) override {}
  std::string device_refusal(Blobs bottom) const override;
  bool stores_16_bits() const override { return true; }
  std::string host_part() const override { return has_lengths_ ? "check of lengths" : ""; }
  bool host_reads(int bottom) const override { return bottom == masks(); }
  int parts() const override { return 3; }
  void take_whole() override { whole_ = true; }
  bool takes_whole() const override { return whole_; }
  bool host_writes() const override { return false; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

  const AttentionSizes& sizes() const { return sizes_; }
  bool causal() const;
  double scale() const;
  bool drops() const { return dropout_.threshold > 0; }
  /// Of forward, for backward: (N, heads, queries) of dtype(), as of BlockedAttention.
  Tensor& log_sums() { return log_sums_; }
  /// What run_backward() reads beside the bottoms, where another forward ran.
  void take_masks(const ComputeDevice& device, Blobs bottom);
  /// The smallest of lengths (N), which are read on the host. Error if one is none.
  int64_t least_length(const Blob& given) const;
  /// lengths (2, at least N), i32: all queries of each sample, and its keys.
  void write_lengths(const ComputeDevice& device, const Blob& given, Tensor& lengths) const;

 protected:
  BackwardReads reference_backward_reads() const override {
    return {whole_ ? IndexSet{0} : IndexSet{0, 1, 2}, true};
  }

 private:
  struct Device;  // what passes on a device keep

  /// The index of the bottom with the mask or the lengths.
  int masks() const { return whole_ ? 1 : 3; }
  /// Sets the sizes by the shapes. Error if they do not fit.
  void fit_parts(Blobs bottom);
  void fit_whole(const Blob& bottom);
  template <class T>
  AttentionInputs<T> inputs(Blobs bottom) const;
  template <class T>
  void forward_on_device(const ComputeDevice& device, Blobs bottom, Blobs top);
  template <class T>
  void backward_on_device(const ComputeDevice& device, Blobs top,
                          const std::vector<bool>& propagate, Blobs bottom);
  /// For the present sizes and threads.
  template <class T>
  BlockedAttention<T>& fit_blocks();

  uint64_t stream_;     // of the layer's name
  bool whole_ = false;  // bottom 0 has q, k and v side by side
  AttentionSizes sizes_;
  AttentionDropout dropout_;
  bool has_lengths_ = false;   // bottom 3 has the numbers of keys
  Tensor padded_{Shape{0}};    // (N, keys), u8
  Tensor log_sums_{Shape{0}};  // (N, heads, queries)
  std::unique_ptr<Device> device_;
  BlockedAttention<float> blocks_f32_;  // of the host, in one of the types
  BlockedAttention<double> blocks_f64_;
};

}  // namespace crema
