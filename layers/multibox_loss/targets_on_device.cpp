#include "layers/multibox_loss/targets_on_device.hpp"

#include "layer_support/blocks.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layers/multibox_loss/target_passes.hpp"
#include "layers/multibox_loss/truths.hpp"

namespace crema {

struct TargetsOnDevice::Memory {
  Tensor images_of{Shape{0}, DType::i32}, order{Shape{0}, DType::i32};
  Tensor first{Shape{0}, DType::i64}, box_of_truth{Shape{0}, DType::i32};
  Tensor matches{Shape{0}, DType::i32}, best{Shape{0}, DType::i32};
  Tensor overlap_of_truth{Shape{0}}, predicted{Shape{0}}, overlaps{Shape{0}}, losses{Shape{0}};
  Tensor location_loss{Shape{0}, DType::f64}, slope{Shape{0}, DType::f64};
  Tensor matched{Shape{1}, DType::f64};
  LayerCheck check_priors, check_truths, check_predicted;
  // What the checks looked at.
  const Blob *priors_blob = nullptr, *truths_blob = nullptr;
  int64_t images = 0, priors = 0;
};

TargetsOnDevice::TargetsOnDevice(const MultiBoxSettings& settings)
    : settings_(settings), memory_(std::make_unique<Memory>()) {}

TargetsOnDevice::~TargetsOnDevice() = default;

namespace {

/// The host finds what is wrong again, and says it in its words.
template <class T>
void explain_truths(const MultiBoxSettings& settings, const Blob& rows, int64_t images) {
  Truths<T>().read(settings, rows, images);
}

template <class T>
void explain_priors(const MultiBoxSettings& settings, const Blob& blob, int64_t priors) {
  const T* const values = blob.data.read<T>();
  check_priors(settings.coder, blob.name, values, values + kEdges * priors, priors);
}

}  // namespace

template <class T>
void TargetsOnDevice::find(const ComputeDevice& device, const Layer& layer, Blobs bottom,
                           int64_t images, int64_t priors, const TargetsThere<T>& there) {
  Memory& m = *memory_;
  const MultiBoxSettings& s = settings_;
  m.priors_blob = bottom[2];
  m.truths_blob = bottom[3];
  m.images = images;
  m.priors = priors;
  const NotesBad bad_prior = m.check_priors.begin(layer, [this](int64_t index, double value) {
    explain_priors<T>(settings_, *memory_->priors_blob, memory_->priors);
    const int64_t edge = index % (kEdges * memory_->priors);
    throw Error("prior box ", edge / kEdges, " of '", memory_->priors_blob->name, "' has the ",
                edge == index ? "coordinate " : "variance ", value,
                edge == index ? "" : "; differences are divided by it");
  });
  const NotesBad bad_truth = m.check_truths.begin(layer, [this](int64_t index, double value) {
    explain_truths<T>(settings_, *memory_->truths_blob, memory_->images);
    throw Error("row ", index / kTruthRow, " of '", memory_->truths_blob->name, "' has the value ",
                value, " at place ", index % kTruthRow, ", which makes no true box");
  });
  const NotesBad bad_box = m.check_predicted.begin(layer, [this](int64_t index, double) {
    const int64_t position = index / kEdges / settings_.locations;
    const int64_t image = position / memory_->priors;
    throw Error("the predicted box of prior ", position % memory_->priors, " of image ", image,
                " is no number, and boxes are matched with predicted ones "
                "(use_prior_for_matching: false)")
        .of_sample(image);
  });

  const int64_t rows = bottom[3]->count() / kTruthRow, some = std::max<int64_t>(rows, 1);
  const int64_t positions = images * priors, places = positions * s.locations;
  const bool by_priors = s.by_priors;
  const TargetProblem<T> p{
      .images = images,
      .priors = priors,
      .classes = s.classes,
      .background = s.background,
      .of_prior = s.locations,
      .object_label = s.agnostic ? s.object_label : -1,
      .softmax = s.softmax,
      .smooth_l1 = s.smooth_l1,
      .by_priors = by_priors,
      .inside_only = s.inside_only,
      .uses_difficult = s.uses_difficult,
      .ignores_difficult = s.ignores_difficult,
      .bipartite = s.matching.bipartite,
      .leaves_out_crossing = s.matching.leaves_out_crossing,
      .mines = s.mines(),
      .hard = s.hard(),
      .overlap_threshold = s.matching.threshold,
      .negative_overlap = s.mining.negative_overlap,
      .negatives_each = s.mining.negatives_each,
      .samples = s.mining.samples,
      .coder = s.coder,
      .there = there,
      .by_image = {images, rows, overwrite_some<int32_t>(device, m.images_of, some),
                   overwrite_some<int32_t>(device, m.order, some),
                   overwrite<int64_t>(device, m.first, images + 1)},
      .box_of_truth = overwrite_some<int32_t>(device, m.box_of_truth, s.locations * some),
      .overlap_of_truth = overwrite_some<T>(device, m.overlap_of_truth, s.locations * some),
      .predicted = by_priors ? nullptr
                             : reinterpret_cast<BoundingBox<T>*>(
                                   overwrite<T>(device, m.predicted, kEdges * places)),
      .matches = overwrite<int32_t>(device, m.matches, places),
      .best = overwrite<int32_t>(device, m.best, places),
      .overlaps = overwrite<T>(device, m.overlaps, places),
      .losses = overwrite<T>(device, m.losses, s.mines() ? positions : 1),
      .location_loss = overwrite<double>(device, m.location_loss, places),
      .slope = layer.trains() ? overwrite<double>(device, m.slope, kEdges * places) : nullptr,
      .matched = device.overwrite<double>(m.matched)};

  for_each(device, priors, kPassGrain, CheckPrior<T>{p, bad_prior});
  for_each(device, rows, kPassGrain, ReadTruth<T>{p, bad_truth});
  list_rows(device, p.by_image);
  if (!by_priors) for_each(device, places, kPassGrain, PredictBox<T>{p, bad_box});
  if (bad_prior.block) {
    for_each(device, 1, 1, FinishCheck<T>{bad_prior, there.priors});
    for_each(device, 1, 1, FinishCheck<T>{bad_truth, there.truths});
    for_each(device, 1, 1, FinishCheck<T>{bad_box, there.locations});
  }
  for_each_block(device, images * (by_priors ? 1 : s.locations), std::min(priors, kMostLanes),
                 kMostLanes, MatchBoxes<T>{p});
  if ((by_priors && s.locations > 1) || s.ignores_difficult)
    for_each(device, positions, kPassGrain, SortMatches<T>{p});
  if (s.mines()) {
    const bool computes = there.loss == nullptr || s.hard();
    if (computes) for_each(device, positions, kPassGrain, ExampleLoss<T>{p});
    for_each_block(device, images, std::min(priors, kMostLanes), kMostLanes,
                   MineExamples<T>{p, computes ? p.losses : there.loss});
  }
  for_each(device, positions, kPassGrain, WriteLabels<T>{p});
  if (there.targets) for_each(device, positions * s.classes, kPassGrain, WriteTarget<T>{p});
  sum(device, places, kElementGrain, IsMatched{p.matches}, 1.0, p.matched);
}

LocationsThere TargetsOnDevice::locations(const ComputeDevice& device) const {
  return {device.read<double>(memory_->location_loss), device.read<double>(memory_->slope),
          device.read<double>(memory_->matched)};
}

int64_t TargetsOnDevice::matched() const {
  return static_cast<int64_t>(memory_->matched.read<double>()[0]);
}

size_t TargetsOnDevice::bytes() const {
  size_t sum = 0;
  const Memory& m = *memory_;
  for (const Tensor* tensor :
       {&m.images_of, &m.order, &m.first, &m.box_of_truth, &m.matches, &m.best, &m.overlap_of_truth,
        &m.predicted, &m.overlaps, &m.losses, &m.location_loss, &m.slope})
    sum += tensor->bytes();
  return sum;
}

template void TargetsOnDevice::find(const ComputeDevice&, const Layer&, Blobs, int64_t, int64_t,
                                    const TargetsThere<float>&);
template void TargetsOnDevice::find(const ComputeDevice&, const Layer&, Blobs, int64_t, int64_t,
                                    const TargetsThere<double>&);

}  // namespace crema
