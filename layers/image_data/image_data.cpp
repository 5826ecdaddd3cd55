// ImageData: images that a list names. See README.md.
#include "crema/registry.hpp"
#include "data/batches/datum_layer.hpp"
#include "data/records/image_list.hpp"
#include "data/transform/unsupported.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = ImageDataParameter;

void check_settings(const LayerParameter& layer, const Context& context) {
  const P& images = layer.image_data_param();
  if (images.source().empty())
    throw Error("image_data_param has no source; name a text file with lines 'file label'");
  if ((images.new_height() == 0) != (images.new_width() == 0))
    throw Error("image_data_param gives new_height ", images.new_height(), " and new_width ",
                images.new_width(), "; give both, or neither");
  const TransformationParameter& transform = layer.transform_param();
  if (images.is_color() ? transform.force_gray() : transform.force_color())
    throw Error("transform_param { ", images.is_color() ? "force_gray" : "force_color",
                " } contradicts image_data_param { is_color: ",
                images.is_color() ? "true" : "false", " }; keep is_color");
  reject_old_transform(images, "image_data_param");
  reject_unsupported(images,
                     {P::kSourceFieldNumber, P::kBatchSizeFieldNumber, P::kRandSkipFieldNumber,
                      P::kShuffleFieldNumber, P::kNewHeightFieldNumber, P::kNewWidthFieldNumber,
                      P::kIsColorFieldNumber, P::kRootFolderFieldNumber, P::kThreadsFieldNumber,
                      P::kCacheFieldNumber, P::kPrecacheFieldNumber, P::kOnBadRecordFieldNumber},
                     "image_data_param");
  if (images.cache() || images.precache()) {
    context.log(Severity::info,
                text("layer '", layer.name(),
                     "': cache and precache have no effect: the system keeps files in memory"));
  }
}

class ImageDataLayer : public ImageLayer {
 public:
  explicit ImageDataLayer(const LayerInit& init)
      : ImageLayer(
            init,
            {.message = "image_data_param",
             .batch_size = init.param.image_data_param().batch_size(),
             .shuffle = init.param.image_data_param().shuffle(),
             .rand_skip = init.param.image_data_param().rand_skip(),
             .threads = init.param.image_data_param().has_threads()
                            ? init.param.image_data_param().threads()
                            : 0,
             .color = init.param.image_data_param().is_color() ? ColorMode::color : ColorMode::gray,
             .size = {init.param.image_data_param().new_height(),
                      init.param.image_data_param().new_width()},
             .one_size = "image_data_param { new_height new_width }",
             .skip_bad = init.param.image_data_param().on_bad_record() == DataParameter::SKIP}) {
    check_settings(init.param, init.context);
  }

  /// Reads the list and the first image.
  void setup(Blobs, Blobs) override {
    const P& images = param().image_data_param();
    open(open_image_list(images.source(), images.root_folder()));
    compare_classes("class_names of a Data layer with backend: IMAGE_LIST names the classes");
  }
};

}  // namespace

void register_image_data(Registry& registry) { registry.add<ImageDataLayer>("ImageData"); }

}  // namespace crema
