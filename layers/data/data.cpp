#include "layers/data/data.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "crema/registry.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/open_source.hpp"
#include "data/databases/tar_source.hpp"
#include "data/records/class_list.hpp"
#include "data/records/image_folder.hpp"
#include "data/transform/unsupported.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = DataParameter;

bool is_database(const DataParameter& data) {
  return data.backend() == P::LEVELDB || data.backend() == P::LMDB;
}

/// Whether labels may be the places of names of folders.
bool has_classes(const DataParameter& data) {
  return data.backend() == P::FOLDER || data.backend() == P::TAR;
}

/// How labels get the names that the training data have.
const char* way_to_names(const DataParameter& data) {
  if (is_database(data))
    return "convert both with one list: crema convert-imageset --class_names=FILE";
  return data.backend() == P::IMAGE_LIST
             ? "class_names of both layers names one file with the classes"
             : "folders in the tar file, in place of numbers, are classes with names";
}

/// Error for settings of other backends.
void check_backend(const DataParameter& data) {
  const auto refuse = [&](const char* field, const char* backends) {
    throw Error("data_param { ", field, " } is for backend: ", backends, ", and the backend is ",
                P::DB_Name(data.backend()), "; remove it, or change the backend");
  };
  if (!data.root_folder().empty() && data.backend() != P::IMAGE_LIST)
    refuse("root_folder", "IMAGE_LIST");
  if (!data.class_names().empty() && !has_classes(data) && data.backend() != P::IMAGE_LIST)
    refuse("class_names", "FOLDER, TAR or IMAGE_LIST");
  if (data.has_lock() && !is_database(data)) refuse("lock", "LMDB or LEVELDB");
}

void check_settings(const LayerParameter& layer, const Context& context) {
  const DataParameter& data = layer.data_param();
  check_backend(data);
  if (data.force_encoded_color() && layer.transform_param().force_gray())
    throw Error("force_encoded_color contradicts force_gray; keep one of them");
  reject_old_transform(data, "data_param");
  reject_unsupported(
      data,
      {P::kSourceFieldNumber, P::kBatchSizeFieldNumber, P::kRandSkipFieldNumber,
       P::kBackendFieldNumber, P::kForceEncodedColorFieldNumber, P::kPrefetchFieldNumber,
       P::kShuffleFieldNumber, P::kLockFieldNumber, P::kThreadsFieldNumber,
       P::kParserThreadsFieldNumber, P::kCacheFieldNumber, P::kPrecacheFieldNumber,
       P::kOnBadRecordFieldNumber, P::kRootFolderFieldNumber, P::kClassNamesFieldNumber},
      "data_param");
  if (data.parser_threads() > 0 || data.cache() || data.precache()) {
    context.log(Severity::info, text("layer '", layer.name(),
                                     "': parser_threads, cache and precache have no effect: "
                                     "records are read where they lie in memory"));
  }
}

SourceKind kind_of_source(P::DB backend) {
  switch (backend) {
    case P::IMAGE_LIST:
      return SourceKind::image_list;
    case P::FOLDER:
      return SourceKind::folder;
    case P::TAR:
      return SourceKind::tar;
    case P::LEVELDB:
      return SourceKind::leveldb;
    case P::LMDB:
      break;
  }
  return SourceKind::lmdb;
}

ColorMode color_mode(const LayerParameter& layer) {
  if (layer.transform_param().force_gray()) return ColorMode::gray;
  const bool color =
      layer.transform_param().force_color() || layer.data_param().force_encoded_color();
  return color ? ColorMode::color : ColorMode::as_stored;
}

}  // namespace

DataLayer::DataLayer(const LayerInit& init)
    : ImageLayer(init, {.message = "data_param",
                        .batch_size = init.param.data_param().batch_size(),
                        .shuffle = init.param.data_param().shuffle(),
                        .rand_skip = init.param.data_param().rand_skip(),
                        .prefetch = init.param.data_param().prefetch(),
                        .threads = init.param.data_param().threads(),
                        .color = color_mode(init.param),
                        .one_size = is_database(init.param.data_param())
                                        ? "write the database with --resize=WIDTHxHEIGHT"
                                        : "transform_param { resize_param }",
                        .skip_bad = init.param.data_param().on_bad_record() == P::SKIP}) {
  check_settings(init.param, init.context);
}

bool DataLayer::labels_by_names() const {
  const DataParameter& data = param().data_param();
  if (is_database(data)) return has_class_file(folder_of_database(data.source()));
  return has_classes(data) || !data.class_names().empty();
}

ClassNames DataLayer::look_up_classes() const {
  const DataParameter& data = param().data_param();
  const char* const kind = data.backend() == P::TAR ? "tar '" : "folder '";
  ClassNames classes{
      .names = {}, .from = text(kind, data.source(), "'"), .listed = !data.class_names().empty()};
  if (classes.listed) classes.from = "class_names '" + data.class_names() + "'";
  if (is_database(data)) {
    classes.from = "database '" + data.source() + "'";
    classes.names = read_class_file(folder_of_database(data.source()));
  } else if (std::vector<std::string> opened = class_names(); !opened.empty()) {
    classes.names = std::move(opened);
  } else if (classes.listed) {
    classes.names = read_class_list(data.class_names());
  } else if (data.backend() == P::FOLDER) {
    classes.names = folders_of_classes(data.source());
  } else if (data.backend() == P::TAR) {
    classes.names = open_tar(data.source(), {}, {})->class_names();
  }
  return classes;
}

void DataLayer::setup(Blobs, Blobs top) {
  const DataParameter& data = param().data_param();
  const auto log = [&log = context()](Severity severity, const std::string& text) {
    log.log(severity, text);
  };
  if (!is_database(data) && data.source().empty())
    throw Error("data_param has no source; name the list, folder or tar file of the images");
  ClassRule classes(data.class_names());
  classes.training = training_classes();
  open(open_source({.path = data.source(),
                    .kind = kind_of_source(data.backend()),
                    .root_folder = data.root_folder(),
                    .class_names = std::move(classes),
                    .lock = data.lock() == P::NONE ? LockMode::none : LockMode::automatic,
                    .logger = log}),
       top.size() > 1);
  // Names of folders were looked up among those of the training data.
  if (!has_classes(data) || class_names().empty()) compare_classes(way_to_names(data));
}

void register_data(Registry& registry) { registry.add<DataLayer>("Data"); }

}  // namespace crema
