// BatchNorm: normalizes each channel to mean 0 and variance 1. It can apply a Scale, the sum with
// another blob, and a ReLU behind it in the same pass. See README.md.
#pragma once

#include <vector>

#include "core/device_run.hpp"
#include "core/over_processes.hpp"
#include "crema/context.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/summand.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/batch_norm/batch_norm_math.hpp"

namespace crema {

class BatchNormLayer : public TwoSidedLayer, public OverProcesses {
 public:
  /// What follows the normalization in the same pass: y = relu(scale * xhat + bias + summand()).
  /// Null: 1, 0. The parameters are the layer's own, or those of a Scale layer behind it.
  struct Ending {
    Parameter* scale = nullptr;
    Parameter* bias = nullptr;
    bool relu = false;
  };

  explicit BatchNormLayer(const LayerInit& init);

  void setup(Blobs bottom, Blobs top) final;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Files of others hold mean and variance, the factor that they are divided by or not, scale and
  /// bias or not, a shape of four dimensions or of one. A layer without scale and bias takes such
  /// that change nothing.
  bool convert_weights(std::vector<Tensor>& published) const override;
  /// A Scale of one number a channel, then the sum with another blob, then a ReLU.
  bool accepts(const Tail& tail) const override;
  /// A scale and a shift of each channel, where the statistics are stored and nothing learns.
  std::optional<TailStep> as_tail_step() const override;
  ChannelAffine stored_affine() const override;

  Ending ending() const;
  /// The bottom that a sum in the tail adds, over which the top may be written; else 0.
  size_t in_place_bottom() const override { return added_bottom(tail()); }
  Blob* summand(Blobs bottom) const { return summand_of(tail(), bottom); }
  /// The stored statistics are used, not the batch's.
  bool uses_stored_statistics() const { return settings_.stored; }
  std::string changes() const override {
    return settings_.stored || roles_.means == nullptr ? "" : "its statistics of all batches";
  }
  /// With sync, in several processes: the statistics are those of all batches together. The
  /// reference computes so, and no engine.
  bool is_synchronized() const {
    return settings_.sync && !settings_.stored && run().world_size > 1;
  }
  void set_processes(Communicator* processes) override {
    processes_ = settings_.sync ? processes : nullptr;
  }
  int64_t channels() const { return channels_; }
  /// Values of one channel.
  int64_t channel_count() const { return channel_count_; }
  /// There is nothing to normalize, nor to take statistics of: the stored ones stay.
  bool is_empty() const { return channel_count_ == 0; }

  /// Bodies for channels: they take the statistics that are stored, or store those of the batch.
  template <class T>
  batch_norm::TakeStored<T> take_stored(const ComputeDevice& device,
                                        const batch_norm::Statistics& to) const {
    return {read_parameter<T>(device, roles_.means), read_parameter<T>(device, roles_.variances),
            read_parameter<T>(device, roles_.factor), settings_.epsilon, to};
  }
  template <class T>
  batch_norm::StoreVariance<T> store_variance(const ComputeDevice& device,
                                              const batch_norm::Statistics& of_batch) {
    return {count_of_all(),
            settings_.fraction,
            settings_.epsilon,
            roles_.means != nullptr && !run().recomputing,
            device.on_host() || !context().on_gpu() ? nullptr : context().device_run().block(),
            of_batch,
            change_parameter<T>(device, roles_.means),
            change_parameter<T>(device, roles_.variances),
            change_parameter<T>(device, roles_.factor)};
  }

  /// On the host, a training step reads x three times and writes y once forward; on a device, x
  /// twice. Backward reads x and dy twice and writes dx once.
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  void prepare_device(Blobs bottom, Blobs top) override;
  bool stores_16_bits() const override { return true; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override;
  size_t scratch_bytes() const override { return scratch_bytes_; }
  size_t kept_bytes() const override {
    return mean_.bytes() + inverse_deviation_.bytes() + means_.bytes() + coefficients_.bytes();
  }

 protected:
  struct Settings {
    bool stored = false;  // use stored statistics, not the batch's
    double fraction = 0, epsilon = 0;
    bool relu = false;  // a ReLU of its own
    bool sync = false;  // statistics over all processes
  };
  /// What a layer of this kind has, each nullptr where it is not there: `means`, `variances` and
  /// the `factor` that both are divided by (1 without it: moving averages); scale and bias of its
  /// own. With `stored` and no means, mean and variance are 0 and 1.
  struct Roles {
    Parameter* means = nullptr;
    Parameter* variances = nullptr;
    Parameter* factor = nullptr;
    Parameter* scale = nullptr;
    Parameter* bias = nullptr;
  };
  BatchNormLayer(const LayerInit& init, const Settings& settings);
  /// Adds the parameters, in the order of published files. Called once, in setup.
  virtual Roles add_params();
  /// A parameter of one number a channel that is saved, but not learned.
  Parameter& add_statistics(int64_t count);

  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  static Settings settings_of(const LayerInit& init);
  template <class T>
  batch_norm::Normalize<T> normalize(const ComputeDevice& device);
  /// Values of one channel, in all processes whose statistics are one.
  double count_of_all() const;
  /// Sums over these processes, in place.
  void add_processes(double* sums, int64_t count) const;

  // batch_norm_device.cpp
  template <class T>
  void forward_on(const ComputeDevice& device, Blobs bottom, Blobs top);
  template <class T>
  void backward_on(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                   Blobs bottom);

  template <class T>
  static T* change_parameter(const ComputeDevice& device, Parameter* parameter) {
    return parameter ? device.change<T>(parameter->data) : nullptr;
  }

  Settings settings_;
  Roles roles_;
  Communicator* processes_ = nullptr;  // null: the batch of this process alone
  int64_t channels_ = 1, channel_count_ = 0;
  // Of the reference and of devices.
  Tensor mean_{Shape{0}, DType::f64}, inverse_deviation_{Shape{0}, DType::f64};  // (channels)
  // Of the reference.
  ChannelView view_;
  Tensor means_{Shape{0}, DType::f64};  // (channels, 2): of d, and of d * normal
  // Of devices.
  size_t scratch_bytes_ = 0;
  Tensor coefficients_{Shape{0}};  // channels::coefficients_in()
};

}  // namespace crema
