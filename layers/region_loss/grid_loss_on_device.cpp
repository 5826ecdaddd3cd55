#include "layers/region_loss/grid_loss_on_device.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "layer_support/detection_rows.hpp"
#include "layer_support/device_check.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layer_support/rows_by_image.hpp"

namespace crema {
namespace {

/// Row i of the labels: checks it, and finds its image and true box, as GridTruths does.
template <class T>
struct ReadGridTruth {
  int64_t classes, width, each;  // values of a row; rows of an image, 0 where they name theirs
  const T* labels;
  RowsByImage rows;
  GridTruth* truths;
  NotesBad bad;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T* const row = labels + i * width;
    const auto v = [&](int64_t k) { return static_cast<double>(row[k]); };
    rows.images_of[i] = -1;
    double label = 0, first = 0, image = 0;
    CentredBox box{};
    if (each == 0) {
      image = v(0);
      if (image == -1) return;
      if (!(image >= 0 && image < static_cast<double>(rows.images)) || std::floor(image) != image)
        return bad(i * width);
      for (int64_t k = 3; k < 7; ++k) {
        if (!(v(k) - v(k) == 0)) return bad(i * width + k);
      }
      label = v(1);
      first = 1;
      box = {(v(3) + v(5)) / 2, (v(4) + v(6)) / 2, v(5) - v(3), v(6) - v(4)};
    } else {
      if (v(3) == 0 && v(4) == 0) return;
      image = static_cast<double>(i / each);
      label = v(0);
      box = {v(1), v(2), v(3), v(4)};
    }
    const int64_t label_at = i * width + (each == 0 ? 1 : 0), sides_at = label_at + 2;
    if (!(label >= first && label < first + static_cast<double>(classes)) ||
        std::floor(label) != label)
      return bad(label_at);
    const double sum = box.x + box.y + box.width + box.height;
    if (!(sum - sum == 0) || !(box.width > 0 && box.height > 0)) return bad(sides_at);
    if (box.x < 0 || box.x > 1 || box.y < 0 || box.y > 1) return;
    truths[i] = {box, static_cast<int32_t>(label - first)};
    rows.images_of[i] = static_cast<int32_t>(image);
  }
};

/// Row i: where its true box belongs.
template <class T>
struct PlaceTruth {
  GridRules rules;
  const T* values;
  RowsByImage rows;
  const GridTruth* truths;
  int64_t* places;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t image = rows.images_of[i];
    places[i] = image < 0 ? -1 : place_of_truth(rules, values, image, truths[i].box);
  }
};

/// A predicted box, by image, anchor and cell: its loss, and the gradient of that.
template <class T>
struct LoseCell {
  GridRules rules;
  const T* values;
  RowsByImage rows;
  const GridTruth* truths;
  const int64_t* places;
  double* losses;
  T* gradient;  // may be null
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t cells = rules.grid.cells(), each = rules.grid.anchors * cells;
    const int64_t image = i / each, place = i % each;
    // The last of several true boxes of one place counts.
    int64_t own = rows.count_of(image) - 1;
    while (own >= 0 && places[rows.row(image, own)] != place) --own;
    const TruthList list{truths, rows.order + rows.first[image], rows.count_of(image)};
    losses[i] =
        loss_of_cell(rules, values, image, place / cells, place % cells, list, own, gradient);
  }
};

struct StoredCellLoss {
  const double* losses;
  CREMA_FUNCTOR double operator()(int64_t i) const { return losses[i]; }
};

}  // namespace

struct GridLossOnDevice::Memory {
  Tensor anchors{Shape{0}, DType::f64}, mask{Shape{0}, DType::i64};
  Tensor images_of{Shape{0}, DType::i32}, order{Shape{0}, DType::i32};
  Tensor first{Shape{0}, DType::i64}, places{Shape{0}, DType::i64};
  Tensor truths{Shape{0}, DType::u8}, losses{Shape{0}, DType::f64};
  LayerCheck check;
  const Blob* labels = nullptr;  // what it looked at
  int64_t images = 0, classes = 0;
};

GridLossOnDevice::GridLossOnDevice() : memory_(std::make_unique<Memory>()) {}
GridLossOnDevice::~GridLossOnDevice() = default;

void GridLossOnDevice::explain(int64_t index, double value) const {
  const Blob& labels = *memory_->labels;
  // The host finds what is wrong again, and says it in its words.
  GridTruths().read(labels, memory_->images, memory_->classes);
  throw Error("value ", index, " of '", labels.name, "' is ", value, ", which makes no true box");
}

void GridLossOnDevice::run(const ComputeDevice& device, const Layer& layer, const GridRules& rules,
                           Blobs bottom, Tensor* gradient, Tensor& loss) {
  dispatch_float(loss.dtype(),
                 [&]<class T>(T) { run_in<T>(device, layer, rules, bottom, gradient, loss); });
}

template <class T>
void GridLossOnDevice::run_in(const ComputeDevice& device, const Layer& layer, GridRules rules,
                              Blobs bottom, Tensor* gradient, Tensor& loss) {
  Memory& m = *memory_;
  const GridLayout& grid = rules.grid;
  if (m.anchors.count() == 0) {
    resize<double>(m.anchors, 2 * rules.all);
    double* const sizes = m.anchors.overwrite<double>();
    for (int64_t a = 0; a < rules.all; ++a) {
      sizes[2 * a] = rules.anchors[a].width;
      sizes[2 * a + 1] = rules.anchors[a].height;
    }
    resize<int64_t>(m.mask, grid.anchors);
    std::copy_n(rules.mask, grid.anchors, m.mask.overwrite<int64_t>());
  }
  static_assert(sizeof(GridAnchor) == 2 * sizeof(double));
  rules.anchors = reinterpret_cast<const GridAnchor*>(device.read<double>(m.anchors));
  rules.mask = device.read<int64_t>(m.mask);
  m.labels = bottom[1];
  m.images = grid.images;
  m.classes = grid.classes;
  const NotesBad bad =
      m.check.begin(layer, [this](int64_t index, double value) { explain(index, value); });

  const bool edges = GridTruths::names_images(bottom[1]->shape());
  const int64_t width = edges ? kTruthRow : GridTruths::kCentreRow;
  const int64_t rows = bottom[1]->count() / width, some = std::max<int64_t>(rows, 1);
  const RowsByImage by_image{grid.images, rows, overwrite_some<int32_t>(device, m.images_of, some),
                             overwrite_some<int32_t>(device, m.order, some),
                             overwrite<int64_t>(device, m.first, grid.images + 1)};
  auto* const truths = reinterpret_cast<GridTruth*>(
      overwrite_some<uint8_t>(device, m.truths, some * int64_t{sizeof(GridTruth)}));
  int64_t* const places = overwrite_some<int64_t>(device, m.places, some);
  const T *const values = device.read<T>(bottom[0]->data), *const labels =
                                                               device.read<T>(bottom[1]->data);
  const int64_t each = edges ? 0 : std::max<int64_t>(rows / std::max<int64_t>(grid.images, 1), 1);
  for_each(device, rows, kPassGrain,
           ReadGridTruth<T>{grid.classes, width, each, labels, by_image, truths, bad});
  if (bad.block) for_each(device, 1, 1, FinishCheck<T>{bad, labels});
  list_rows(device, by_image);
  for_each(device, rows, kPassGrain, PlaceTruth<T>{rules, values, by_image, truths, places});
  if (gradient != nullptr) fill_zero(device, *gradient);
  const int64_t boxes = grid.images * grid.anchors * grid.cells();
  double* const losses = overwrite<double>(device, m.losses, boxes);
  for_each(device, boxes, kPassGrain,
           LoseCell<T>{rules, values, by_image, truths, places, losses,
                       gradient != nullptr ? device.change<T>(*gradient) : nullptr});
  sum(device, boxes, kElementGrain, StoredCellLoss{losses},
      1.0 / static_cast<double>(std::max<int64_t>(grid.images, 1)), device.overwrite<T>(loss));
}

size_t GridLossOnDevice::bytes() const {
  size_t sum = 0;
  const Memory& m = *memory_;
  for (const Tensor* tensor :
       {&m.anchors, &m.mask, &m.images_of, &m.order, &m.first, &m.places, &m.truths, &m.losses})
    sum += tensor->bytes();
  return sum;
}

}  // namespace crema
