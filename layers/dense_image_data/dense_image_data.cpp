// DenseImageData: images with a label for every pixel. See README.md.
#include <algorithm>
#include <iterator>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "data/batches/datum_layer.hpp"
#include "data/records/image_list.hpp"
#include "data/records/pair_list.hpp"
#include "data/transform/unsupported.hpp"
#include "layers/dense_image_data/dense_loader.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = DenseImageDataParameter;

void check_settings(const LayerParameter& layer) {
  const P& images = layer.dense_image_data_param();
  if (images.source().empty())
    throw Error(
        "dense_image_data_param has no source; name a text file with lines "
        "'image labelmap'");
  if ((images.new_height() == 0) != (images.new_width() == 0))
    throw Error("dense_image_data_param gives new_height ", images.new_height(), " and new_width ",
                images.new_width(), "; give both, or neither");
  const TransformationParameter& transform = layer.transform_param();
  if (images.is_color() ? transform.force_gray() : transform.force_color())
    throw Error("transform_param { ", images.is_color() ? "force_gray" : "force_color",
                " } contradicts dense_image_data_param { is_color: ",
                images.is_color() ? "true" : "false", " }; keep is_color");
  if (transform.has_mixup_param() || transform.has_cutmix_param() || transform.num_labels() > 0)
    throw Error(
        "transform_param { mixup_param, cutmix_param, num_labels } mix labels of whole "
        "images, and these have one a pixel; remove them");
  reject_old_transform(images, "dense_image_data_param");
}

class DenseImageDataLayer final : public BatchLayer<DenseBatch, DatumLayer> {
 public:
  explicit DenseImageDataLayer(const LayerInit& init)
      : BatchLayer(init, {.message = "dense_image_data_param",
                          .batch_size = init.param.dense_image_data_param().batch_size(),
                          .shuffle = init.param.dense_image_data_param().shuffle(),
                          .rand_skip = init.param.dense_image_data_param().rand_skip(),
                          .color = init.param.dense_image_data_param().is_color() ? ColorMode::color
                                                                                  : ColorMode::gray,
                          .size = {init.param.dense_image_data_param().new_height(),
                                   init.param.dense_image_data_param().new_width()},
                          .one_size = "dense_image_data_param { new_height new_width }"}) {
    check_settings(init.param);
  }

  /// Reads the list and the first image.
  void setup(Blobs, Blobs top) override {
    const P& settings = param().dense_image_data_param();
    std::vector<ListedPair> pairs = read_pair_list(settings.source(), "lines 'image labelmap'");
    ImageFiles files{.name = "list '" + settings.source() + "'",
                     .list = settings.source(),
                     .root = settings.root_folder(),
                     .images = {}};
    for (const ListedPair& pair : pairs) {
      ListedImage image;
      image.file = pair.image;
      image.line = pair.line;
      files.images.push_back(std::move(image));
    }
    const auto source = open_image_files(std::move(files));
    if (top.size() < 2) return open(source);
    labels_ = std::make_shared<const PixelLabels>(
        PixelLabels::Options{.list = settings.source(),
                             .root = settings.root_folder(),
                             .pairs = std::move(pairs),
                             .divisor = settings.label_divide_factor()});
    LabelMapLoader maps(labels_);
    open(source, false, &maps);
  }

  std::vector<std::string> input_files() const override {
    std::vector<std::string> files = DatumLayer::input_files();
    if (labels_) std::ranges::copy(labels_->files(), std::back_inserter(files));
    return files;
  }
  void reshape(Blobs bottom, Blobs top) override {
    DatumLayer::reshape(bottom, top.first(1));
    if (top.size() > 1) reshape_labels(records_per_batch(), format().shape, *top[1]);
  }

  size_t kept_bytes() const override {
    const auto pixels =
        static_cast<size_t>(depth() * records_per_batch() * format().shape.count(1));
    return DatumLayer::kept_bytes() + (param().top_size() > 1 ? pixels : 0);
  }

 private:
  Loading loading() override {
    return {.threads = threads(),
            .depth = depth(),
            .make_loader = [records = datums(), labels = labels_] {
              return std::make_unique<DenseLoader>(records, labels);
            }};
  }

  void reshape_labels(int64_t samples, const Shape& sample, Blob& top) const {
    top.reshape({samples, 1, sample[1], sample[2]});
  }

  void take_shape(const DenseBatch& batch, Blobs top) override {
    take_image_shape(batch, top.first(1));
    if (top.size() > 1)
      reshape_labels(static_cast<int64_t>(batch.samples.size()), batch.shape, *top[1]);
  }

  void give(const DenseBatch& batch, Blobs top) override {
    give_images(batch, top.first(1));
    if (top.size() < 2) return;
    dispatch_float(top[1]->data.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const out = top[1]->data.overwrite<T>();  // (N, 1, H, W)
      const uint8_t* const in = batch.label_maps.data();
      parallel_for(top[1]->count(), kElementGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(in[i]);
      });
    });
  }

  std::shared_ptr<const PixelLabels> labels_;  // none without a top for them
};

}  // namespace

void register_dense_image_data(Registry& registry) {
  registry.add<DenseImageDataLayer>("DenseImageData");
}

}  // namespace crema
