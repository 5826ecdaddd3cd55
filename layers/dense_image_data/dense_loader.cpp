#include "layers/dense_image_data/dense_loader.hpp"

#include "core/spans.hpp"

namespace crema {

void LabelMapLoader::open(const Record& /*record*/, const DatumDecoder& decoder,
                          const Image& image) {
  const ImageSize size = decoder.original();
  geometry_ = Geometry(size);
  if (size.height != image.height || size.width != image.width)
    geometry_.resize({image.height, image.width});
}

void LabelMapLoader::place(const std::vector<ImageStep>& steps, const Geometry& crop) {
  for (const ImageStep& step : steps) crema::apply(step, geometry_);
  geometry_.then(crop);
}

void LabelMapLoader::load(const Sample& sample, size_t index) {
  {
    const Span span(SpanKind::decode, [] { return "decode label map"; });
    labels_->read(sample.record, geometry_.record_size(), reader_);
  }
  const Span span(SpanKind::transform, [] { return "place label map"; });
  const ImageSize size = geometry_.sample_size();
  const auto pixels = static_cast<size_t>(size.height * size.width);
  batch_->label_maps.resize(batch_->samples.size() * pixels);
  geometry_.apply(reader_.labels.data(), kOutsideLabel, batch_->label_maps.data() + index * pixels);
}

DenseLoader::DenseLoader(DatumLoading loading, std::shared_ptr<const PixelLabels> labels)
    : maps_(labels ? std::optional<LabelMapLoader>(std::move(labels)) : std::nullopt),
      images_(std::move(loading), maps_ ? &*maps_ : nullptr) {}

void DenseLoader::load(DenseBatch& batch, const std::atomic<bool>& stop) {
  if (maps_) maps_->load_to(batch);
  images_.load(batch, stop);
}

}  // namespace crema
