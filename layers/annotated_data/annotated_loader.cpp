#include "layers/annotated_data/annotated_loader.hpp"

#include <iterator>
#include <utility>

#include "crema/error.hpp"
#include "proto/detection.pb.h"

namespace crema {

void BoxLoader::open(const Record& record, const DatumDecoder& decoder, const Image& image) {
  const auto refused = [&](const std::string& why) {
    return Error("record '", printable_key(record.key), "'", why);
  };
  const AnnotatedDatum* const annotated = decoder.annotated();
  if (annotated == nullptr)
    throw refused(
        " is a Datum, and this layer reads AnnotatedDatum records, with boxes; set type: \"Data\", "
        "or write the database with crema convert-annotations");
  boxes_.clear();
  has_boxes_ = reading_->is_type_given || annotated->has_type();
  if (!has_boxes_ && batch_ != nullptr)
    throw refused(
        " has no annotation type, the first one BBOX; write the database anew, or set "
        "annotated_data_param { anno_type: BBOX }");
  if (!has_boxes_) return;
  try {
    boxes_ = boxes_of(*annotated);
    for (LabeledBox& labeled : boxes_) {
      reading_->names.check(labeled.label);
      labeled.box = to_pixels(labeled.box, {image.height, image.width});
    }
  } catch (const Error& error) {
    throw refused(": " + error.message()).about(error.path());
  }
}

DrawnSteps BoxLoader::draw(const Augmentation& augmentation, ImageSize image,
                           const SampleRandom& random) {
  return reading_->sampling.draw(augmentation, image, random, boxes_);
}

void BoxLoader::place(const std::vector<ImageStep>& /*steps: draw() moved the boxes with them*/,
                      const Geometry& crop) {
  reading_->sampling.follow(crop, boxes_);
  sample_ = crop.sample_size();
}

void BoxLoader::load(const Sample& /*sample*/, size_t index) {
  if (batch_ == nullptr) return;
  for (const LabeledBox& labeled : boxes_) {
    const auto [left, top, right, bottom] = to_relative(labeled.box, sample_);
    const double row[] = {static_cast<double>(index),
                          static_cast<double>(labeled.label),
                          static_cast<double>(labeled.instance),
                          left,
                          top,
                          right,
                          bottom,
                          labeled.difficult ? 1.0 : 0.0};
    batch_->boxes.insert(batch_->boxes.end(), std::begin(row), std::end(row));
  }
}

AnnotatedLoader::AnnotatedLoader(DatumLoading loading, std::shared_ptr<const BoxReading> reading)
    : has_boxes_(loading.format.labels == 0),
      boxes_(std::move(reading)),
      images_(std::move(loading), &boxes_) {}

void AnnotatedLoader::load(AnnotatedBatch& batch, const std::atomic<bool>& stop) {
  batch.boxes.clear();
  if (has_boxes_) boxes_.load_to(batch);
  images_.load(batch, stop);
}

}  // namespace crema
