// DatumLayer: the base of layers whose records are Datum messages, from a database or made of the
// files of a list. It decodes, transforms and gives them: top 0 (N, C, H, W), top 1 the labels, (N)
// or, where records have L of them, (N, L).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/datum_loader.hpp"
#include "data/mixing.hpp"
#include "data/sampled_layer.hpp"

namespace crema {

class DatumLayer : public SampledLayer {
 public:
  bool has_database_keys() const final {
    return records_.source != nullptr && !records_.source->is_files();
  }
  std::vector<std::string> class_names() const final {
    return records_.source != nullptr ? records_.source->class_names() : std::vector<std::string>();
  }
  void reshape(Blobs bottom, Blobs top) override;
  /// Of the batches that are read ahead.
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
  /// For setup(): takes the source and looks at its first record; warns of a database without
  /// labels where `reads_labels`.
  void open(std::shared_ptr<RecordSource> source, bool reads_labels = false);
  /// For what a layer reads beside images: set before open().
  DatumLoading& datums() { return records_; }
  const SampleFormat& format() const { return records_.format; }
  const Mixing& mixing() const { return mixing_; }

  void take_shape(const Batch& batch, Blobs top) const override;
  void give(const Batch& batch, Blobs top) const override;
  std::string key_of(const Sample& sample, int64_t index) const override;
  int depth() const;

 private:
  SamplerOptions sampling() const override;
  uint64_t rand_skip() const override { return settings_.rand_skip; }
  // A partner for mixing is drawn among the samples of a whole batch.
  bool ends_early() const override { return !mixing_.is_active(); }
  Loading loading(Blobs top) override;
  std::string raw_key_of(const Sample& sample, int64_t index) const override;

  Settings settings_;
  Mixing mixing_;
  DatumLoading records_;
  int64_t largest_ = 0;                               // values of a sample, at most
  mutable std::unique_ptr<RecordReader> key_reader_;  // made when the first key is asked for
};

}  // namespace crema
