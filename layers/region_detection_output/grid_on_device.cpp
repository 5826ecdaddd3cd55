// GridDetectionLayer on a device: first the confidences of all boxes in all classes, then the
// choice.
#include <numeric>

#include "core/dispatch.hpp"
#include "layer_support/box_lists.hpp"
#include "layer_support/passes.hpp"
#include "layers/region_detection_output/grid_detection.hpp"

namespace crema {
namespace {

/// A box of a grid, by image, anchor and cell: its confidence in each class, -1 where that is none,
/// and its edges where a class has one.
template <class T>
struct GridConfidences {
  GridLayout grid;
  bool softmax;
  double least;
  int64_t items, first;   // boxes of an image; those of the bottoms before
  const double* anchors;  // width and height of each
  const T* values;
  T* confidences;         // (images, classes, items)
  BoundingBox<T>* boxes;  // (images, items)

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t cells = grid.cells(), cell = i % cells, anchor = i / cells % grid.anchors;
    const int64_t image = i / cells / grid.anchors;
    const T* const at = values + grid.plane(image, anchor, 0) + cell;
    const auto class_score = [&](int64_t c) {
      return static_cast<double>(at[(GridLayout::kClasses + c) * cells]);
    };
    const int64_t item = first + anchor * cells + cell;
    T* const to = confidences + image * grid.classes * items + item;
    const double object = sigmoid_of(static_cast<double>(at[GridLayout::kObject * cells]));
    if (object <= least) {
      for (int64_t c = 0; c < grid.classes; ++c) to[c * items] = T{-1};
      return;
    }
    double greatest = 0, divisor = 1;
    if (softmax) {
      for (int64_t c = 0; c < grid.classes; ++c) {
        const double score = class_score(c);
        if (c == 0 || greatest < score) greatest = score;
      }
      divisor = 0;
      for (int64_t c = 0; c < grid.classes; ++c) divisor += exp(class_score(c) - greatest);
    }
    bool has_one = false;
    for (int64_t c = 0; c < grid.classes; ++c) {
      const double score = class_score(c);
      const double share = softmax ? exp(score - greatest) : sigmoid_of(score);
      const T confidence = static_cast<T>(object * share / divisor);
      to[c * items] = confidence;
      has_one = has_one || confidence > static_cast<T>(least);
    }
    if (!has_one) return;
    const GridAnchor size{anchors[2 * anchor], anchors[2 * anchor + 1]};
    boxes[image * items + item] =
        predicted_box(grid, values, image, anchor, size, cell).template edges<T>();
  }
};

/// Lists are those of the classes of each image, items the boxes of all grids.
template <class T>
struct GridBoxes {
  static constexpr bool kRefusesInfinite = false;
  int64_t classes, items;
  T least;
  const T* confidences;
  const BoundingBox<T>* boxes;

  CREMA_FUNCTOR Candidacy candidacy(int64_t list, int64_t i, T& score) const {
    score = confidences[list * items + i];
    if (score != score) return Candidacy::refused;
    return score > least ? Candidacy::candidate : Candidacy::none;
  }
  CREMA_FUNCTOR BoundingBox<T> box(int64_t list, int64_t i) const {
    return boxes[list / classes * items + i];
  }
};

}  // namespace

struct GridChoiceOnDevice::Memory {
  std::tuple<BoxLists<float>, BoxLists<double>> lists;
  Tensor anchors{Shape{0}, DType::f64}, confidences{Shape{0}}, boxes{Shape{0}, DType::u8};
};

GridChoiceOnDevice::GridChoiceOnDevice(const GridDetectionSettings& settings)
    : settings_(settings), memory_(std::make_unique<Memory>()) {
  std::vector<double> sizes;
  for (const auto& of_bottom : settings.anchors) {
    for (const GridAnchor& anchor : of_bottom)
      sizes.insert(sizes.end(), {anchor.width, anchor.height});
  }
  memory_->anchors.reshape(Shape{static_cast<int64_t>(sizes.size())});
  std::copy(sizes.begin(), sizes.end(), memory_->anchors.overwrite<double>());
}

GridChoiceOnDevice::~GridChoiceOnDevice() = default;

bool GridChoiceOnDevice::run(const ComputeDevice& device, Blobs bottom,
                             const std::vector<GridLayout>& grids, Shape& shape, Blob& top) {
  const int64_t images = grids[0].images, classes = settings_.classes;
  const int64_t items = std::accumulate(
      grids.begin(), grids.end(), int64_t{0},
      [](int64_t sum, const auto& grid) { return sum + grid.anchors * grid.cells(); });
  bool done = false;
  dispatch_float(top.data.dtype(), [&]<class T>(T) {
    T* const confidences = overwrite<T>(device, memory_->confidences, images * classes * items);
    auto* const boxes = reinterpret_cast<BoundingBox<T>*>(overwrite<uint8_t>(
        device, memory_->boxes, images * items * int64_t{sizeof(BoundingBox<T>)}));
    const double* anchors = device.read<double>(memory_->anchors);
    int64_t first = 0;
    for (size_t b = 0; b < grids.size(); ++b) {
      const GridLayout& grid = grids[b];
      for_each(device, images * grid.anchors * grid.cells(), kPassGrain,
               GridConfidences<T>{grid, settings_.softmax, settings_.least, items, first, anchors,
                                  device.read<T>(bottom[b]->data), confidences, boxes});
      anchors += 2 * grid.anchors;
      first += grid.anchors * grid.cells();
    }
    auto& lists = std::get<BoxLists<T>>(memory_->lists);
    lists.choose(device,
                 {.lists = images * classes, .items = items, .suppression = settings_.suppression},
                 GridBoxes<T>{classes, items, static_cast<T>(settings_.least), confidences, boxes});
    const ListTotals totals = lists.totals(device);
    if (totals.refused != 0) return;
    // Label 0 is the background, as DetectionEvaluate has it.
    lists.write_detections(device, top, shape, images, classes, totals.rows, 1);
    done = true;
  });
  return done;
}

size_t GridChoiceOnDevice::bytes() const {
  return memory_->anchors.bytes() + memory_->confidences.bytes() + memory_->boxes.bytes() +
         std::get<0>(memory_->lists).bytes() + std::get<1>(memory_->lists).bytes();
}

}  // namespace crema
