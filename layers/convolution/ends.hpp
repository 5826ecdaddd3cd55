// What a convolution computes around its products: scales and shifts folded into its parameters,
// the sum with another bottom, bias and ReLU, forward and backward. Each kernel of an engine has
// its own, the reference that of its layer.
#pragma once

#include <memory>
#include <vector>

#include "backend/channel_view.hpp"
#include "core/move.hpp"
#include "layers/convolution/convolution.hpp"
#include "layers/convolution/folded_parameters.hpp"

namespace crema {

class ConvolutionEnds {
 public:
  explicit ConvolutionEnds(ConvolutionLayer& layer);
  /// For tops of these shapes and formats. Once before the passes.
  void fit(Blobs top);

  /// What the layer computes with: its parameters, or those with the tail's scales and shifts in
  /// them, whose values are valid from fold() on. No bias is null.
  Parameter& weights() const { return folded_ ? folded_->weights : *layer_.params()[0]; }
  Parameter* bias() const;

  /// Whether fold() has to run in each pass, on the host.
  bool folds() const { return folded_ != nullptr; }
  /// The first step of forward: folds the tail's scales and shifts into the parameters if any of
  /// these changed. On the host, also for `device`.
  void fold(const ComputeDevice& device) const;
  /// The second step where the kernel adds to its top: copies the summand to top 0.
  void take_summand(const ComputeDevice& device, Blobs bottom, Blobs top) const;
  /// The last step of forward: adds the bias to the products y, in any format, and applies the
  /// ReLU.
  void finish(const ComputeDevice& device, Tensor& y) const;
  /// The first step of backward: writes sums_diff(). Does nothing without a ReLU. On the host, data
  /// and diffs may be ranges (core/row_ranges.hpp) whose rows are images.
  void undo_relu(const ComputeDevice& device, Blobs top);
  /// The diff of the sums before the ReLU, for top i. It is the diff of the top, unless there is a
  /// ReLU and the diff of the top must not be overwritten.
  Tensor& sums_diff(Blobs top, size_t i) { return masked_.empty() ? top[i]->diff : masked_[i]; }
  /// Adds the gradient of the bias only, after undo_relu(), for tops in any format.
  void backward_bias(const ComputeDevice& device, Blobs top);
  /// The last step of backward: copies the diff of the sums to the summand if it wants one.
  void pass_to_summand(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                       Blobs bottom);

  size_t bytes() const;
  /// Of the device's scratch memory that backward_bias() takes.
  size_t scratch_bytes() const;

 private:
  template <class T>
  void undo_relu_of_images(const Blob& top, Tensor& sums_diff) const;
  /// The top as (outer, channels, inner); of any format that is not blocked.
  ChannelView top_view(Format format) const;

  ConvolutionLayer& layer_;
  std::unique_ptr<FoldedParameters> folded_;  // null without scales and shifts in the tail
  std::vector<Tensor> masked_;      // like the tops, if their diffs must not be overwritten
  std::vector<double> block_sums_;  // of backward_bias() in blocked formats
};

}  // namespace crema
