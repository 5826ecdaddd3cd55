#include "layers/data/data.hpp"

#include "crema/registry.hpp"
#include "data/unsupported.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = DataParameter;

void check_settings(const LayerParameter& layer, const Context& context) {
  const DataParameter& data = layer.data_param();
  if (data.force_encoded_color() && layer.transform_param().force_gray())
    throw Error("force_encoded_color contradicts force_gray; keep one of them");
  reject_old_transform(data, "data_param");
  reject_unsupported(
      data,
      {P::kSourceFieldNumber, P::kBatchSizeFieldNumber, P::kRandSkipFieldNumber,
       P::kBackendFieldNumber, P::kForceEncodedColorFieldNumber, P::kPrefetchFieldNumber,
       P::kShuffleFieldNumber, P::kLockFieldNumber, P::kThreadsFieldNumber,
       P::kParserThreadsFieldNumber, P::kCacheFieldNumber, P::kPrecacheFieldNumber},
      "data_param");
  if (data.parser_threads() > 0 || data.cache() || data.precache()) {
    context.log(Severity::info, concat("layer '", layer.name(),
                                       "': parser_threads, cache and precache have no effect: "
                                       "records are read where they lie in memory"));
  }
}

ColorMode color_mode(const LayerParameter& layer) {
  if (layer.transform_param().force_gray()) return ColorMode::gray;
  const bool color =
      layer.transform_param().force_color() || layer.data_param().force_encoded_color();
  return color ? ColorMode::color : ColorMode::as_stored;
}

}  // namespace

DataLayer::DataLayer(const LayerInit& init)
    : DatumLayer(init, {.message = "data_param",
                        .batch_size = init.param.data_param().batch_size(),
                        .shuffle = init.param.data_param().shuffle(),
                        .rand_skip = init.param.data_param().rand_skip(),
                        .prefetch = init.param.data_param().prefetch(),
                        .threads = init.param.data_param().threads(),
                        .color = color_mode(init.param),
                        .one_size = "write the database with --resize_height, --resize_width, and "
                                    "set force_color"}) {
  check_settings(init.param, init.context);
}

void DataLayer::setup(Blobs, Blobs) {
  const DataParameter& data = param().data_param();
  open(open_database(
      {.path = data.source(),
       .kind = data.backend() == P::LEVELDB ? DatabaseKind::leveldb : DatabaseKind::lmdb,
       .lock = data.lock() == P::NONE ? LockMode::none : LockMode::automatic,
       .logger = [&log = context()](Severity severity, const std::string& text) {
         log.log(severity, text);
       }}));
}

void register_data(Registry& registry) { registry.add<DataLayer>("Data"); }

}  // namespace crema
