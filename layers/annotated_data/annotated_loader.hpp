// Loads batches of images with boxes, AnnotatedDatum records.
#pragma once

#include <memory>
#include <vector>

#include "data/batches/datum_loader.hpp"
#include "data/boxes/label_map.hpp"
#include "layers/annotated_data/box_sampling.hpp"

namespace crema {

struct AnnotatedBatch : ImageBatch {
  /// (B, 8): the sample, label, instance, xmin, ymin, xmax, ymax, difficult. None where records
  /// have labels.
  std::vector<double> boxes;
};

/// How the layer reads boxes.
struct BoxReading {
  BoxSampling sampling;
  LabelNames names;            // of the labels of boxes; none: any label
  bool is_type_given = false;  // records without an annotation type have boxes, too
};

/// The boxes of one record, in pixels.
class BoxLoader final : public TargetLoader {
 public:
  explicit BoxLoader(std::shared_ptr<const BoxReading> reading) : reading_(std::move(reading)) {}
  /// Boxes go to this batch from here on; a record that has labels instead is an Error.
  void load_to(AnnotatedBatch& batch) { batch_ = &batch; }

  void open(const Record& record, const DatumDecoder& decoder, const Image& image) override;
  bool replaces_labels() const override { return has_boxes_; }
  DrawnSteps draw(const Augmentation& augmentation, ImageSize image,
                  const SampleRandom& random) override;
  void place(const std::vector<ImageStep>& steps, const Geometry& crop) override;
  void load(const Sample& sample, size_t index) override;

 private:
  std::shared_ptr<const BoxReading> reading_;
  bool has_boxes_ = false;         // the record opened last
  std::vector<LabeledBox> boxes_;  // of that record
  ImageSize sample_;
  AnnotatedBatch* batch_ = nullptr;  // none: boxes are not written
};

class AnnotatedLoader final : public BatchLoader<AnnotatedBatch> {
 public:
  AnnotatedLoader(DatumLoading loading, std::shared_ptr<const BoxReading> reading);
  // images_ points to boxes_.
  AnnotatedLoader(const AnnotatedLoader&) = delete;
  AnnotatedLoader& operator=(const AnnotatedLoader&) = delete;
  void load(AnnotatedBatch& batch, const std::atomic<bool>& stop) override;

 private:
  bool has_boxes_;  // the records, in place of labels
  BoxLoader boxes_;
  DatumLoader images_;
};

}  // namespace crema
