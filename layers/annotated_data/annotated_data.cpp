// AnnotatedData: images with boxes from a database. See README.md.
#include <algorithm>
#include <bit>
#include <filesystem>

#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "data/batches/datum_layer.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/open_source.hpp"
#include "data/transform/unsupported.hpp"
#include "layer_support/detection_rows.hpp"
#include "layers/annotated_data/annotated_loader.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = DataParameter;

void check_settings(const LayerParameter& layer) {
  const P& data = layer.data_param();
  if (data.backend() != P::LMDB && data.backend() != P::LEVELDB)
    throw Error("data_param { backend: ", P::DB_Name(data.backend()),
                " } has no boxes; give a database (LMDB, LEVELDB) that crema convert-annotations "
                "writes");
  reject_old_transform(data, "data_param");
  reject_unsupported(data,
                     {P::kSourceFieldNumber, P::kBatchSizeFieldNumber, P::kRandSkipFieldNumber,
                      P::kBackendFieldNumber, P::kForceEncodedColorFieldNumber,
                      P::kPrefetchFieldNumber, P::kShuffleFieldNumber, P::kLockFieldNumber,
                      P::kThreadsFieldNumber, P::kParserThreadsFieldNumber, P::kCacheFieldNumber,
                      P::kPrecacheFieldNumber, P::kOnBadRecordFieldNumber},
                     "data_param");
  const TransformationParameter& transform = layer.transform_param();
  if (data.force_encoded_color() && transform.force_gray())
    throw Error("force_encoded_color contradicts force_gray; keep one of them");
  if (transform.has_mixup_param() || transform.has_cutmix_param() || transform.num_labels() > 0)
    throw Error(
        "transform_param { mixup_param, cutmix_param, num_labels } mix labels of whole "
        "images, and these have boxes; remove them");
}

ColorMode color_mode(const LayerParameter& layer) {
  if (layer.transform_param().force_gray()) return ColorMode::gray;
  const bool color =
      layer.transform_param().force_color() || layer.data_param().force_encoded_color();
  return color ? ColorMode::color : ColorMode::as_stored;
}

class AnnotatedDataLayer final : public BatchLayer<AnnotatedBatch, DatumLayer> {
 public:
  explicit AnnotatedDataLayer(const LayerInit& init)
      : BatchLayer(init,
                   {.message = "data_param",
                    .batch_size = init.param.data_param().batch_size(),
                    .shuffle = init.param.data_param().shuffle(),
                    .rand_skip = init.param.data_param().rand_skip(),
                    .prefetch = init.param.data_param().prefetch(),
                    .threads = init.param.data_param().threads(),
                    .color = color_mode(init.param),
                    .one_size = "transform_param { force_color resize_param }, not FIT_SMALL_SIZE",
                    .skip_bad = init.param.data_param().on_bad_record() == P::SKIP,
                    .takes_boxes = true}) {
    check_settings(init.param);
    const AnnotatedDataParameter& settings = init.param.annotated_data_param();
    BoxReading boxes{.sampling = BoxSampling(settings, init.param.transform_param(), phase()),
                     .names = {},
                     .is_type_given = settings.has_anno_type()};
    if (!settings.label_map_file().empty())
      boxes.names = LabelNames::read(settings.label_map_file());
    boxes_ = std::make_shared<const BoxReading>(std::move(boxes));
  }

  /// Those of the label map; without one, those that the database keeps.
  std::vector<std::string> class_names() const override {
    return has_map() ? boxes_->names.names_by_label() : DatumLayer::class_names();
  }
  bool labels_by_names() const override { return has_map() || has_class_file(folder()); }
  ClassNames look_up_classes() const override {
    if (!has_map())
      return {.names = read_class_file(folder()),
              .from = "database '" + param().data_param().source() + "'"};
    return {.names = class_names(),
            .from = "label map '" + boxes_->names.source() + "'",
            .listed = true};
  }

  bool is_late(int t) const override { return t == 1 && gives_boxes(); }

  /// Opens the database and looks at its first record.
  void setup(Blobs, Blobs top) override {
    const P& data = param().data_param();
    const auto log = [&log = context()](Severity severity, const std::string& text) {
      log.log(severity, text);
    };
    tops_ = top.size();
    BoxLoader boxes(boxes_);
    open(open_source({.path = data.source(),
                      .kind = data.backend() == P::LEVELDB ? SourceKind::leveldb : SourceKind::lmdb,
                      .lock = data.lock() == P::NONE ? LockMode::none : LockMode::automatic,
                      .logger = log}),
         false, &boxes);
    compare_classes("label_map_file of both layers names one label map");
    if (!gives_boxes()) return;
    constexpr int64_t kFew = 8;  // boxes of an image, mostly
    bound_ = std::max<int64_t>(1, kFew * records_per_batch());
  }

  void reshape(Blobs bottom, Blobs top) override {
    DatumLayer::reshape(bottom, gives_boxes() ? top.first(1) : top);
    if (gives_boxes()) top[1]->reshape({1, 1, bound_, kTruthRow});
  }

  size_t kept_bytes() const override {
    const size_t boxes = gives_boxes() ? static_cast<size_t>(depth() * bound_ * kTruthRow) : 0;
    return DatumLayer::kept_bytes() + boxes * sizeof(double);
  }

 private:
  bool has_map() const { return !boxes_->names.empty(); }
  std::filesystem::path folder() const { return folder_of_database(param().data_param().source()); }
  /// The records have boxes in place of labels, and there is a top for them.
  bool gives_boxes() const { return tops_ > 1 && format().labels == 0; }

  Loading loading() override {
    return {.threads = threads(),
            .depth = depth(),
            .make_loader = [records = datums(), boxes = boxes_] {
              return std::make_unique<AnnotatedLoader>(records, boxes);
            }};
  }

  void take_shape(const AnnotatedBatch& batch, Blobs top) override {
    take_image_shape(batch, gives_boxes() ? top.first(1) : top);
    if (!gives_boxes()) return;
    // It only grows, and by twice at least, so that few batches need a new plan of the net.
    if (const int64_t rows = rows_of(batch); rows > bound_)
      bound_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
    top[1]->reshape({1, 1, bound_, kTruthRow});
  }

  void give(const AnnotatedBatch& batch, Blobs top) override {
    if (!gives_boxes()) return give_images(batch, top);
    give_images(batch, top.first(1));
    const int64_t rows = rows_of(batch);
    top[1]->reshape({1, 1, std::max<int64_t>(1, rows), kTruthRow});
    dispatch_float(top[1]->data.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const out = top[1]->data.overwrite<T>();  // (B, 8)
      if (rows == 0) std::fill_n(out, kTruthRow, T{-1});
      for (int64_t row = 0; row < rows; ++row) {
        const double* const from = batch.boxes.data() + row * kTruthRow;
        for (int64_t i = 0; i < kTruthRow; ++i) out[row * kTruthRow + i] = static_cast<T>(from[i]);
        check_exact(batch, from, out + row * kTruthRow);
      }
    });
  }

  static int64_t rows_of(const AnnotatedBatch& batch) {
    return static_cast<int64_t>(batch.boxes.size()) / kTruthRow;
  }

  /// Label and instance of a box; rounded ones would be taken for others.
  template <class T>
  void check_exact(const AnnotatedBatch& batch, const double* from, const T* out) const {
    for (const int i : {1, 2}) {
      if (static_cast<double>(out[i]) == from[i]) continue;
      const auto sample = static_cast<int64_t>(from[0]);
      throw Error("record '", key_of(batch.samples[static_cast<size_t>(sample)], sample), "': the ",
                  i == 1 ? "label " : "instance ", static_cast<int64_t>(from[i]),
                  " of a box has no exact value in ", to_string(dtype()),
                  ", the type of the net; number labels from 0, or make the net in f64");
    }
  }

  std::shared_ptr<const BoxReading> boxes_;
  size_t tops_ = 0;
  int64_t bound_ = 0;  // of the rows of top 1
};

}  // namespace

void register_annotated_data(Registry& registry) {
  registry.add<AnnotatedDataLayer>("AnnotatedData");
}

}  // namespace crema
