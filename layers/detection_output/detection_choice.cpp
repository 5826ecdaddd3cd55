#include "layers/detection_output/detection_choice.hpp"

#include <algorithm>
#include <atomic>

#include "core/parallel.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

// Confidences that one job looks through.
constexpr int64_t kBlock = 8192;

/// With one branch: NaN and infinities times 0 are NaN.
template <class T>
bool is_finite(const BoundingBox<T>& box) {
  return box.xmin * 0 + box.ymin * 0 + box.xmax * 0 + box.ymax * 0 == 0;
}

template <class T>
[[noreturn]] void refuse(const BoundingBox<T>& box, int64_t label, int64_t prior, int64_t image) {
  throw Error("the box of class ", label, " at prior box ", prior, " of image ", image, " is (",
              box.xmin, ", ", box.ymin, ", ", box.xmax, ", ", box.ymax,
              "); the net has diverged, or its input or prior boxes have NaN")
      .of_sample(image);
}

}  // namespace

template <class T>
DetectionChoice<T>::DetectionChoice(const DetectionSettings& settings)
    : settings_(settings),
      scan_(settings.classes, settings.background, static_cast<T>(settings.least)),
      block_rows_(std::max<int64_t>(kBlock / settings.classes, 1)) {}

template <class T>
template <class Body>
void DetectionChoice<T>::each_job(int64_t jobs, const Body& body) {
  // Classes differ much in their candidates: each thread takes the next job when it is done.
  std::atomic<int64_t> next{0};
  const auto workers = static_cast<int64_t>(scratch_.size());
  parallel_for(std::min(workers, jobs), 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      Scratch& scratch = scratch_[static_cast<size_t>(worker)];
      for (int64_t job = next++; job < jobs; job = next++) body(scratch, job);
    }
  });
}

template <class T>
void DetectionChoice<T>::run(const DetectionInput<T>& input) {
  input_ = input;
  blocks_ = (input.priors + block_rows_ - 1) / block_rows_;
  const int64_t lists = input.images * blocks_ * settings_.classes;
  if (static_cast<int64_t>(found_.size()) < lists) found_.resize(static_cast<size_t>(lists));
  const int64_t outputs = input.images * settings_.classes;
  if (static_cast<int64_t>(chosen_.size()) < outputs) chosen_.resize(static_cast<size_t>(outputs));
  const auto workers = static_cast<size_t>(omp_in_parallel() ? 1 : omp_get_max_threads());
  if (scratch_.size() != workers) scratch_.resize(workers);

  each_job(input.images * blocks_,
           [&](Scratch& scratch, int64_t job) { find(scratch, job / blocks_, job % blocks_); });
  reserve();
  each_job(outputs, [&](Scratch& scratch, int64_t job) {
    choose(scratch, job / settings_.classes, job % settings_.classes);
  });
  if (settings_.keep >= 0) {
    each_job(input.images, [&](Scratch& scratch, int64_t image) { keep_best(scratch, image); });
  }
  count_ = 0;
  for (int64_t i = 0; i < outputs; ++i) {
    count_ += static_cast<int64_t>(chosen_[static_cast<size_t>(i)].size());
  }
}

template <class T>
void DetectionChoice<T>::reserve() {
  size_t most = 0, most_kept = 0;  // of a class; of an image, behind its choice
  const auto top_k = settings_.suppression.top_k;
  for (int64_t image = 0; image < input_.images; ++image) {
    size_t kept = 0;
    for (int64_t label = 0; label < settings_.classes; ++label) {
      size_t count = 0;
      for (int64_t block = 0; block < blocks_; ++block)
        count += list_of(image, block, label).size();
      most = std::max(most, count);
      kept += top_k < 0 ? count : std::min(count, static_cast<size_t>(top_k));
    }
    most_kept = std::max(most_kept, kept);
  }
  const size_t boxes = top_k < 0 ? most : std::min(most, static_cast<size_t>(top_k));
  for (Scratch& scratch : scratch_) {
    scratch.candidates.reserve(std::max(most, settings_.keep < 0 ? 0 : most_kept));
    scratch.kept.reserve(boxes);
    scratch.boxes.reserve(static_cast<int64_t>(boxes));
    scratch.indices.resize(static_cast<size_t>(block_rows_ * settings_.classes + 1));
  }
}

template <class T>
void DetectionChoice<T>::find(Scratch& scratch, int64_t image, int64_t block) {
  const int64_t classes = settings_.classes;
  auto* const lists = &found_[static_cast<size_t>((image * blocks_ + block) * classes)];
  for (int64_t c = 0; c < classes; ++c) lists[c].clear();
  const int64_t first = block * block_rows_, rows = std::min(block_rows_, input_.priors - first);
  const T* const scores = input_.confidences + (image * input_.priors + first) * classes;
  scratch.indices.resize(static_cast<size_t>(block_rows_ * classes + 1));
  const int64_t count = scan_.run(scores, rows, scratch.indices.data());
  int64_t row = 0, row_begin = 0;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = scratch.indices[static_cast<size_t>(k)];
    for (; i >= row_begin + classes; row_begin += classes) ++row;
    const T score = scores[i];
    if (score != score)
      throw Error("the confidence of class ", i - row_begin, " at prior box ", first + row,
                  " of image ", image, " is NaN; the net has diverged, or its input has NaN")
          .of_sample(image);
    lists[i - row_begin].push_back({score, static_cast<int32_t>(first + row)});
  }
}

template <class T>
void DetectionChoice<T>::choose(Scratch& scratch, int64_t image, int64_t label) {
  auto& chosen = chosen_[static_cast<size_t>(image * settings_.classes + label)];
  chosen.clear();
  if (label == settings_.background) return;
  auto& candidates = scratch.candidates;
  candidates.clear();
  for (int64_t block = 0; block < blocks_; ++block) {
    const auto& list = list_of(image, block, label);
    candidates.insert(candidates.end(), list.begin(), list.end());
  }
  sort_candidates(candidates, settings_.suppression.top_k);

  const int64_t of_prior = settings_.shares_location ? 1 : settings_.classes;
  const T* const locations = input_.locations + 4 * (image * input_.priors * of_prior +
                                                     (settings_.shares_location ? 0 : label));
  const T* const boxes = input_.boxes + (input_.own_priors ? image * 8 * input_.priors : 0);
  const T* const variances = boxes + 4 * input_.priors;
  suppress(
      settings_.suppression, static_cast<int64_t>(candidates.size()),
      [&](int64_t k) {
        const int64_t p = candidates[static_cast<size_t>(k)].index;
        const BoundingBox<T> box =
            settings_.coder.decode(BoundingBox<T>::load(boxes + 4 * p), variances + 4 * p,
                                   BoundingBox<T>::load(locations + 4 * p * of_prior));
        if (!is_finite(box)) refuse(box, label, p, image);
        return box;
      },
      scratch.boxes, scratch.kept);
  for (size_t i = 0; i < scratch.kept.size(); ++i) {
    const Candidate<T>& candidate = candidates[static_cast<size_t>(scratch.kept[i])];
    chosen.push_back({candidate.score, candidate.index, scratch.boxes[static_cast<int64_t>(i)]});
  }
}

/// Keeps the best boxes of all classes; among equal scores those of the lower class, then of the
/// lower prior.
template <class T>
void DetectionChoice<T>::keep_best(Scratch& scratch, int64_t image) {
  auto* const lists = &chosen_[static_cast<size_t>(image * settings_.classes)];
  auto& scores = scratch.candidates;
  scores.clear();
  for (int64_t c = 0; c < settings_.classes; ++c) {
    for (const Detection<T>& one : lists[c]) {
      // In the order of classes and, of a class, from the best on: what the index stands for.
      scores.push_back({one.score, static_cast<int32_t>(scores.size())});
    }
  }
  if (static_cast<int64_t>(scores.size()) <= settings_.keep) return;
  std::nth_element(scores.begin(), scores.begin() + (settings_.keep - 1), scores.end());
  const Candidate<T> last = scores[static_cast<size_t>(settings_.keep - 1)];
  int32_t index = 0;
  for (int64_t c = 0; c < settings_.classes; ++c) {
    auto& list = lists[c];
    const auto size = static_cast<int32_t>(list.size());
    int32_t kept = 0;
    while (kept < size &&
           !(last < Candidate<T>{list[static_cast<size_t>(kept)].score, index + kept}))
      ++kept;
    list.resize(static_cast<size_t>(kept));
    index += size;
  }
}

template <class T>
size_t DetectionChoice<T>::bytes() const {
  size_t sum = 0;
  for (const auto& list : found_) sum += list.capacity() * sizeof(list[0]);
  for (const auto& list : chosen_) sum += list.capacity() * sizeof(list[0]);
  return sum;
}

template class DetectionChoice<float>;
template class DetectionChoice<double>;

}  // namespace crema
