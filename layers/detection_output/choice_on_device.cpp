#include "layers/detection_output/choice_on_device.hpp"

#include <tuple>

#include "core/dispatch.hpp"
#include "layer_support/box_lists.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

/// Lists are those of the classes of each image, items its prior boxes.
template <class T>
struct PriorDetections {
  static constexpr bool kRefusesInfinite = true;
  int64_t classes, background, priors, of_prior;  // locations of a prior
  T least;
  BoxCoder coder;
  bool own_priors;
  const T *locations, *confidences, *boxes;

  CREMA_FUNCTOR Candidacy candidacy(int64_t list, int64_t i, T& score) const {
    const int64_t image = list / classes, label = list % classes;
    if (label == background) return Candidacy::none;
    score = confidences[(image * priors + i) * classes + label];
    if (score != score) return Candidacy::refused;
    return score > least ? Candidacy::candidate : Candidacy::none;
  }
  CREMA_FUNCTOR BoundingBox<T> box(int64_t list, int64_t i) const {
    const int64_t image = list / classes, label = list % classes;
    const T* const own = boxes + (own_priors ? image * 8 * priors : 0);
    const int64_t location = (image * priors + i) * of_prior + (of_prior > 1 ? label : 0);
    return coder.decode(BoundingBox<T>::load(own + 4 * i), own + 4 * (priors + i),
                        BoundingBox<T>::load(locations + 4 * location));
  }
};

}  // namespace

struct ChoiceOnDevice::Memory {
  std::tuple<BoxLists<float>, BoxLists<double>> lists;
};

ChoiceOnDevice::ChoiceOnDevice(const DetectionSettings& settings)
    : settings_(settings), memory_(std::make_unique<Memory>()) {}

ChoiceOnDevice::~ChoiceOnDevice() = default;

bool ChoiceOnDevice::run(const ComputeDevice& device, Blobs bottom,
                         const DetectionInput<float>& input, Shape& shape, Blob& top) {
  bool done = false;
  dispatch_float(top.data.dtype(), [&]<class T>(T) {
    auto& lists = std::get<BoxLists<T>>(memory_->lists);
    const int64_t classes = settings_.classes;
    lists.choose(
        device,
        {.lists = input.images * classes,
         .items = input.priors,
         .suppression = settings_.suppression},
        PriorDetections<T>{classes, settings_.background, input.priors,
                           settings_.shares_location ? 1 : classes, static_cast<T>(settings_.least),
                           settings_.coder, input.own_priors, device.read<T>(bottom[0]->data),
                           device.read<T>(bottom[1]->data), device.read<T>(bottom[2]->data)});
    if (settings_.keep >= 0) lists.keep_best(device, classes, settings_.keep);
    const ListTotals totals = lists.totals(device);
    if (totals.refused != 0) return;
    lists.write_detections(device, top, shape, input.images, classes, totals.rows);
    done = true;
  });
  return done;
}

size_t ChoiceOnDevice::bytes() const {
  return std::get<0>(memory_->lists).bytes() + std::get<1>(memory_->lists).bytes();
}

}  // namespace crema
