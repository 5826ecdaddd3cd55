// DatumLayer: the base of layers whose records are Datum messages, from a database or made of the
// files of a list. It decodes, transforms and gives them: top 0 (N, C, H, W), top 1 the labels, (N)
// or, where records have L of them, (N, L). Layers with batches of their own derive from
// BatchLayer<B, DatumLayer>, where B derives from ImageBatch; those without, from ImageLayer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batches/datum_loader.hpp"
#include "data/batches/image_tops.hpp"
#include "data/batches/sampled_layer.hpp"
#include "data/transform/mixing.hpp"

namespace crema {

class DatumLayer : public SampledLayer {
 public:
  bool has_database_keys() const final {
    return records_.source != nullptr && !records_.source->is_files();
  }
  std::vector<std::string> class_names() const override {
    return records_.source != nullptr ? records_.source->class_names() : std::vector<std::string>();
  }
  void set_training_classes(const ClassNames& classes) final { training_ = classes; }
  /// What has the records of images.
  std::shared_ptr<RecordSource> images() const { return records_.source; }
  void tell_transform(Origin& origin) const final;
  std::vector<std::string> input_files() const override {
    return records_.source != nullptr ? records_.source->files() : std::vector<std::string>();
  }
  void reshape(Blobs bottom, Blobs top) override;
  /// Of the images and labels of the batches that are read ahead.
  size_t kept_bytes() const override;
  std::string key_of_record(int64_t record) const final;

 protected:
  struct Settings {
    const char* message = "";  // the name of the layer's settings in a prototxt
    int64_t batch_size = 0;
    bool shuffle = false;
    uint64_t rand_skip = 0;
    uint32_t prefetch = kDepth;  // batches
    uint32_t threads = 0;        // 0: chosen from the machine
    ColorMode color = ColorMode::as_stored;
    ImageSize size = {};
    const char* one_size = "";  // as in DatumLoading
    bool skip_bad = false;      // likewise
    bool takes_boxes = false;   // emit_constraint is a setting of the layer
  };
  DatumLayer(const LayerInit& init, const Settings& settings);
  /// For setup(): takes the source and looks at its first record, and at the targets in it; warns
  /// of a database without labels where `reads_labels`.
  void open(std::shared_ptr<RecordSource> source, bool reads_labels = false,
            TargetLoader* targets = nullptr);
  /// For setup(), behind open(): Error where a label that has a name is another class in the
  /// training data; warns where no label has one, and those of the training data have. `way_out`
  /// ends the message.
  void compare_classes(std::string_view way_out) const;
  /// What a net told of them.
  const std::optional<ClassNames>& training_classes() const { return training_; }
  const SampleFormat& format() const { return records_.format; }
  /// Of loaders that read on from here, with the present seed of the run.
  DatumLoading datums() const;
  int threads() const;
  int depth() const;

  /// Sets the shapes of top 0 and, if it is among `top`, that of the labels.
  void take_image_shape(const ImageBatch& batch, Blobs top) const;
  /// Writes top 0 and, if it is among `top`, the labels; tells once of what decoding lost.
  void give_images(const ImageBatch& batch, Blobs top);
  std::string key_of(const Sample& sample, int64_t index) const override;

 private:
  /// In a context that decodes JPEG files on its device: of each loader.
  MakeDeviceJpeg jpeg_maker() const;
  SamplerOptions sampling() const override;
  uint64_t rand_skip() const override { return settings_.rand_skip; }
  // A partner for mixing is drawn among the samples of a whole batch.
  bool ends_early() const override { return !mixing_.is_active(); }
  std::string raw_key_of(const Sample& sample, int64_t index) const override;

  Settings settings_;
  Mixing mixing_;
  LossWarnings losses_;
  std::optional<ClassNames> training_;
  DatumLoading records_;
  std::shared_ptr<DeviceImages> device_images_;       // in a context on a device
  int64_t largest_ = 0;                               // values of a sample, at most
  mutable std::unique_ptr<RecordReader> key_reader_;  // made when the first key is asked for
};

/// Batches of images and labels alone.
class ImageLayer : public BatchLayer<ImageBatch, DatumLayer> {
 protected:
  using BatchLayer::BatchLayer;

 private:
  Loading loading() override;
  void take_shape(const ImageBatch& batch, Blobs top) override { take_image_shape(batch, top); }
  void give(const ImageBatch& batch, Blobs top) override { give_images(batch, top); }
};

}  // namespace crema
