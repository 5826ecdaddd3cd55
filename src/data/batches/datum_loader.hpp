// Batches of Datum records: read, decoded and cropped.
#pragma once

#include <memory>

#include "crema/tensor.hpp"
#include "data/batches/image_batch.hpp"
#include "data/batches/target_loader.hpp"
#include "data/records/datum.hpp"
#include "data/records/record_source.hpp"
#include "data/transform/transform.hpp"

namespace crema {

/// What every sample of a data layer looks like; taken from the first record.
struct SampleFormat {
  Shape shape;          // (C, H, W) after cropping
  bool floats = false;  // records hold floats, not bytes
  bool encoded = false;
  int64_t labels = 1;    // of a record; 0 where targets stand in their place
  bool changes = false;  // there may be steps before the crop, or targets beside the image
};

/// Settings that the loaders of a layer share.
struct DatumLoading {
  std::shared_ptr<RecordSource> source;
  ReadOrder order = ReadOrder::forward;
  ColorMode color = ColorMode::as_stored;
  ImageSize size;  // to which compressed images are resized
  std::shared_ptr<const Transform> transform;
  SampleFormat format;
  bool varies = false;      // in size: each batch has one sample, and a shape of its own
  bool skip_bad = false;    // a record that cannot be used is replaced by the next good one
  bool leaves_out = false;  // with skip_bad: or left out of the batch, unless no other is in it
  /// The settings that make images of one size, for messages.
  std::string_view one_size;
  uint64_t seed = 0;
  uint64_t rank = 0;    // of the run
  uint64_t stream = 0;  // of the layer's random numbers
  /// Of each loader, where a device decodes JPEG files; empty: the host does.
  MakeDeviceJpeg make_jpeg;
};

/// The format that `record` has in a batch of size number `size`. `targets` are those of the layer,
/// or null. Error, naming its key, when it cannot be used.
SampleFormat format_of(const Record& record, const DatumLoading& loading,
                       TargetLoader* targets = nullptr, int size = 0);

/// The format of the first record, or, with skip_bad, of the first one that can be used.
SampleFormat first_format(const DatumLoading& loading, TargetLoader* targets = nullptr,
                          int size = 0);

/// Threads that load batches of this format: as many as `wanted`, or chosen from the cores that
/// this process may use for 0.
int loader_threads(uint32_t wanted, const SampleFormat& format);

inline constexpr int64_t kMostBadInRow = 1000;

/// Sets ImageBatch::shape. Error, naming the key, at a record of another format than the first
/// one's, or that needs more memory than there is. With skip_bad, a record that is an Error is
/// replaced by the next one of the source, behind the last one by the first, that is none: so the
/// batch is a function of its samples. Error after kMostBadInRow bad records in a row, and if all
/// are bad.
class DatumLoader final : public BatchLoader<ImageBatch> {
 public:
  /// `targets`, which has to outlive the loader, loads what belongs to the images; null: nothing.
  explicit DatumLoader(DatumLoading loading, TargetLoader* targets = nullptr);
  void load(ImageBatch& batch, const std::atomic<bool>& stop) override;

 private:
  void set_shape(ImageBatch& batch, const Shape& shape) const;
  void load_one(ImageBatch& batch, size_t index);
  /// As of reader_ and of decoder_, with a span each.
  Record read(int64_t number);
  Image pixels(const ImageWindow& window, int eighths = 8);
  void load_record(const Record& record, ImageBatch& batch, size_t index);
  /// Of the record that was opened last.
  void note_loss(const Record& record, ImageBatch& batch) const;
  void load_good(ImageBatch& batch, size_t index, const std::atomic<bool>& stop);
  void load_only_good(ImageBatch& batch, const std::atomic<bool>& stop);
  void shrink(ImageBatch& batch, size_t size) const;
  void load_labels(const Record& record, ImageBatch& batch, size_t index);
  Image augmented(const Record& record, const Image& opened, DrawnSteps& drawn);

  DatumLoading loading_;
  std::unique_ptr<RecordReader> reader_;
  DatumDecoder decoder_;
  TargetLoader* targets_;
  int size_ = 0;                // of the batch, among several
  std::vector<double> labels_;  // of one record
  ImageEditor editor_;
};

}  // namespace crema
