#include <tuple>

#include "core/dispatch.hpp"
#include "layer_support/box_lists.hpp"
#include "layer_support/passes.hpp"
#include "layers/proposal/proposal_boxes.hpp"

namespace crema {
namespace {

/// Box i of the batch.
template <class T>
struct ProposedBoxes {
  ProposalProblem problem;
  const BoundingBox<double>* anchors;
  const T *offsets, *info;
  BoundingBox<T>* boxes;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t image = i / problem.each();
    const auto of_image = ImageInfo<T>::of(info + image * problem.columns, problem.columns,
                                           static_cast<T>(problem.least_side));
    boxes[i] = problem.box_at(anchors, offsets, image, i % problem.each(), of_image);
  }
};

/// A list is of an image.
template <class T>
struct Proposals {
  static constexpr bool kRefusesInfinite = false;
  ProposalProblem problem;
  const T *scores, *info;
  const BoundingBox<T>* boxes;

  CREMA_FUNCTOR Candidacy candidacy(int64_t image, int64_t i, T& score) const {
    const T* const row = info + image * problem.columns;
    for (int64_t k = 0; k < problem.columns && k < 4; ++k) {
      // Also where it is NaN or infinite.
      if (!(row[k] > 0 && row[k] - row[k] == 0)) return Candidacy::refused;
    }
    score = scores[problem.score_at(image, i)];
    if (score != score) return Candidacy::refused;
    const auto least = ImageInfo<T>::of(row, problem.columns, static_cast<T>(problem.least_side));
    const BoundingBox<T> own = box(image, i);
    const T width = own.xmax - own.xmin + 1, height = own.ymax - own.ymin + 1;
    // False for NaN.
    return width >= least.least_width && height >= least.least_height ? Candidacy::candidate
                                                                      : Candidacy::none;
  }
  CREMA_FUNCTOR BoundingBox<T> box(int64_t image, int64_t i) const {
    return boxes[image * problem.each() + i];
  }
};

/// A region: image and edges; and its score.
template <class T>
struct RegionRow {
  T *to, *scores;  // scores may be null
  CREMA_FUNCTOR void operator()(int64_t number, int64_t image, const Candidate<T>& one,
                                const BoundingBox<T>& box) const {
    T* const row = to + number * 5;
    row[0] = static_cast<T>(image);
    box.store(row + 1);
    if (scores) scores[number] = one.score;
  }
};

}  // namespace

struct ProposalOnDevice::Memory {
  std::tuple<BoxLists<float>, BoxLists<double>> lists;
  Tensor anchors{Shape{0}, DType::f64}, boxes{Shape{0}, DType::u8};
};

ProposalOnDevice::ProposalOnDevice(const std::vector<BoundingBox<double>>& anchors)
    : memory_(std::make_unique<Memory>()) {
  memory_->anchors.reshape(Shape{4 * static_cast<int64_t>(anchors.size())});
  double* to = memory_->anchors.overwrite<double>();
  for (const auto& anchor : anchors) {
    anchor.store(to);
    to += 4;
  }
}

ProposalOnDevice::~ProposalOnDevice() = default;

int64_t ProposalOnDevice::choose(const ComputeDevice& device, const ProposalProblem& problem,
                                 Blobs bottom) {
  int64_t regions = -1;
  dispatch_float(bottom[0]->data.dtype(), [&]<class T>(T) {
    const int64_t count = problem.images * problem.each();
    auto* const boxes = reinterpret_cast<BoundingBox<T>*>(
        overwrite<uint8_t>(device, memory_->boxes, count * int64_t{sizeof(BoundingBox<T>)}));
    const T *const scores = device.read<T>(bottom[0]->data), *const info =
                                                                 device.read<T>(bottom[2]->data);
    for_each(device, count, kPassGrain,
             ProposedBoxes<T>{problem,
                              reinterpret_cast<const BoundingBox<double>*>(
                                  device.read<double>(memory_->anchors)),
                              device.read<T>(bottom[1]->data), info, boxes});
    auto& lists = std::get<BoxLists<T>>(memory_->lists);
    lists.choose(device,
                 {.lists = problem.images,
                  .items = problem.each(),
                  .suppression = {.threshold = problem.threshold, .top_k = problem.first},
                  .most = problem.most,
                  .more = T{1}},  // in pixels a box covers its last row and column
                 Proposals<T>{problem, scores, info, boxes});
    const ListTotals totals = lists.totals(device);
    if (totals.refused == 0) regions = totals.rows;
  });
  return regions;
}

void ProposalOnDevice::write(const ComputeDevice& device, Blobs top) {
  dispatch_float(top[0]->data.dtype(), [&]<class T>(T) {
    T* const to = device.overwrite<T>(top[0]->data);
    T* const scores = top.size() > 1 ? device.overwrite<T>(top[1]->data) : nullptr;
    std::get<BoxLists<T>>(memory_->lists).write(device, RegionRow<T>{to, scores});
  });
}

size_t ProposalOnDevice::bytes() const {
  return memory_->anchors.bytes() + memory_->boxes.bytes() + std::get<0>(memory_->lists).bytes() +
         std::get<1>(memory_->lists).bytes();
}

}  // namespace crema
