// Loads batches of images with a label map each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batches/datum_loader.hpp"
#include "layers/dense_image_data/pixel_labels.hpp"

namespace crema {

struct DenseBatch : ImageBatch {
  std::vector<uint8_t> label_maps;  // (N, H, W), mirrored as the samples; none without a top
};

/// The label map of one record.
class LabelMapLoader final : public TargetLoader {
 public:
  explicit LabelMapLoader(std::shared_ptr<const PixelLabels> labels) : labels_(std::move(labels)) {}
  /// Maps go to this batch from here on.
  void load_to(DenseBatch& batch) { batch_ = &batch; }

  void open(const Record& record, const DatumDecoder& decoder, const Image& image) override;
  bool replaces_labels() const override { return true; }
  void place(const std::vector<ImageStep>& steps, const Geometry& crop) override;
  void load(const Sample& sample, size_t index) override;

 private:
  std::shared_ptr<const PixelLabels> labels_;
  Geometry geometry_{ImageSize()};  // from the image of the record opened last to its sample
  PixelLabels::Reader reader_;
  DenseBatch* batch_ = nullptr;
};

class DenseLoader final : public BatchLoader<DenseBatch> {
 public:
  /// Without `labels`, images alone.
  DenseLoader(DatumLoading loading, std::shared_ptr<const PixelLabels> labels);
  // images_ points to maps_.
  DenseLoader(const DenseLoader&) = delete;
  DenseLoader& operator=(const DenseLoader&) = delete;
  void load(DenseBatch& batch, const std::atomic<bool>& stop) override;

 private:
  std::optional<LabelMapLoader> maps_;
  DatumLoader images_;
};

}  // namespace crema
