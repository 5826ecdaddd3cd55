#include "tools/evaluated_classes.hpp"

#include <algorithm>
#include <cmath>

#include "core/data_source.hpp"
#include "core/utf8.hpp"
#include "monitor/png.hpp"
#include "solver/average_precision.hpp"
#include "tools/record_pass.hpp"
#include "tools/seen_images.hpp"

namespace crema::tools {
namespace {

constexpr size_t kMostMistakes = 24, kMostMasks = 8, kMostConfusions = 40;
constexpr int64_t kMostPairs = 1000;          // classes whose pairs are counted
constexpr int64_t kMostCountedClasses = 100;  // classes whose counts are written
constexpr size_t kMostCurves = 11;
constexpr size_t kMostHits = 5000000;  // scores that are kept
constexpr int kMistakeSide = 160, kMaskSide = 240;

/// The probabilities of the classes of one position.
std::vector<double> probabilities_of(const Tensor& scores, int64_t first, int64_t classes,
                                     bool are_probabilities) {
  std::vector<double> row(static_cast<size_t>(classes));
  double greatest = -HUGE_VAL, sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    row[static_cast<size_t>(c)] = scores.at(first + c);
    greatest = std::max(greatest, row[static_cast<size_t>(c)]);
  }
  if (are_probabilities) return row;
  for (double& value : row) sum += value = std::exp(value - greatest);
  for (double& value : row) value /= sum;
  return row;
}

bool is_distribution(const Tensor& scores, int64_t first, int64_t classes) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double value = scores.at(first + c);
    if (!(value >= 0 && value <= 1.001)) return false;
    sum += value;
  }
  return std::abs(sum - 1) < 1e-3;
}

}  // namespace

Evaluation::Curve ScoredHits::curve(int label) {
  Evaluation::Curve curve;
  curve.set_label(label);
  std::vector<ScoredDetection> detections;
  for (const Hit& hit : hits) detections.push_back({hit.score, hit.right});
  curve.set_average_precision(average_precision(detections, labels, ApVersion::integral));
  std::ranges::stable_sort(hits, std::ranges::greater(), &Hit::score);
  const size_t step = std::max<size_t>(1, static_cast<size_t>(labels) / kCurvePoints);
  int64_t right = 0;
  for (size_t i = 0; i < hits.size(); ++i) {
    right += hits[i].right ? 1 : 0;
    const bool is_shown = hits[i].right && (right == 1 || right % static_cast<int64_t>(step) == 0);
    if (labels == 0 || (!is_shown && right != labels)) continue;
    curve.add_recall(static_cast<float>(right) / static_cast<float>(labels));
    curve.add_precision(static_cast<float>(right) / static_cast<float>(i + 1));
    if (right == labels) break;
  }
  return curve;
}

EvaluatedClasses::EvaluatedClasses(const NetParameter& param, const NetOptions& options) {
  try {
    std::vector<ScoredLabels> found = find_scored_labels(param, options);
    if (!found.empty()) scored_ = std::move(found.back());
  } catch (const Error& error) {
    notes_.push_back(text("Classes are not counted: ", printable(error.what())));
  }
}

std::vector<std::string> EvaluatedClasses::blobs() const {
  if (!scored_) return {};
  return {scored_->scores, scored_->labels};
}

void EvaluatedClasses::begin(Net& net, const std::vector<std::string>& trained) {
  if (!scored_) return;
  const Shape& shape = net.blob(scored_->scores).shape();
  const int64_t classes = shape.rank() == 0 ? 0 : shape[shape.canonical_axis(scored_->axis)];
  confusion_ = ConfusionMatrix(classes <= kMostPairs);
  const auto fit = [&](const std::vector<std::string>& names) {
    return static_cast<int64_t>(names.size()) == classes;
  };
  for (const Layer* layer : net.layers()) {
    const DataSource* data = layer->data_source();
    if (data == nullptr || !names_.empty()) continue;
    if (std::vector<std::string> names = data->class_names(); fit(names)) names_ = std::move(names);
  }
  if (names_.empty() && fit(trained)) names_ = trained;
}

void EvaluatedClasses::add(Net& net, const RecordPass& pass, const SeenImages& images) {
  if (!scored_) return;
  try {
    const Tensor scores = net.output(scored_->scores), labels = net.output(scored_->labels);
    confusion_.add(scores, labels, *scored_, pass.left_out());
    of_pixels_ = scores.shape().rank() == 4 && scores.shape().count(2) > 1;
    if (of_pixels_) {
      if (images.any()) add_mask(net, scores, labels, images);
    } else {
      add_scores(scores, labels, pass.left_out());
      if (images.any()) add_mistakes(net, scores, labels, pass.left_out(), images);
    }
    ++batches_;
  } catch (const Error& error) {
    notes_.push_back(text("Classes are not counted: ", printable(error.what())));
    scored_.reset();
  }
}

void EvaluatedClasses::add_scores(const Tensor& scores, const Tensor& labels,
                                  const std::vector<bool>& left_out) {
  const int64_t classes = confusion_.classes();
  // One row of scores a label; other forms have counts alone.
  if (scores.count() != labels.count() * classes ||
      scores.shape()[scores.shape().canonical_axis(scored_->axis)] !=
          scores.shape().count(scores.shape().canonical_axis(scored_->axis)))
    return;
  if (!are_probabilities_) are_probabilities_ = is_distribution(scores, 0, classes);
  hits_.resize(static_cast<size_t>(classes));
  if (hits_[0].hits.size() * hits_.size() > kMostHits) return;
  for (int64_t i = 0; i < labels.count(); ++i) {
    const double label = labels.at(i);
    if (scored_->ignore_label && label == *scored_->ignore_label) continue;
    if (static_cast<int64_t>(left_out.size()) == labels.count() && left_out[static_cast<size_t>(i)])
      continue;
    const std::vector<double> row =
        probabilities_of(scores, i * classes, classes, *are_probabilities_);
    for (int64_t c = 0; c < classes; ++c) {
      const double probability = row[static_cast<size_t>(c)];
      ScoredHits& of = hits_[static_cast<size_t>(c)];
      const bool is_right = label == static_cast<double>(c);
      if (is_right) ++of.labels;
      if (!std::isnan(probability)) of.hits.push_back({probability, is_right});
    }
  }
}

void EvaluatedClasses::add_mistakes(Net& net, const Tensor& scores, const Tensor& labels,
                                    const std::vector<bool>& left_out, const SeenImages& images) {
  const std::vector<Prediction> all = predictions(scores, labels, *scored_);
  const int64_t classes = confusion_.classes();
  if (!are_probabilities_) return;
  if (labels.shape().rank() == 0 || static_cast<int64_t>(all.size()) != labels.shape()[0]) return;
  for (size_t i = 0; i < all.size(); ++i) {
    const double label = labels.at(static_cast<int64_t>(i));
    if ((!left_out.empty() && left_out[i]) || all[i].best < 0 ||
        (scored_->ignore_label && label == *scored_->ignore_label) ||
        static_cast<double>(all[i].best) == label)
      continue;
    const std::vector<double> row =
        probabilities_of(scores, static_cast<int64_t>(i) * classes, classes, *are_probabilities_);
    const double score = row[static_cast<size_t>(all[i].best)];
    if (std::isnan(score)) continue;
    const auto place = std::ranges::upper_bound(mistakes_, score, std::ranges::greater(),
                                                &Evaluation::Picture::score);
    if (place == mistakes_.end() && mistakes_.size() >= kMostMistakes) continue;
    Evaluation::Picture picture = images.picture(net, static_cast<int64_t>(i), kMistakeSide);
    picture.set_label(static_cast<int>(label));
    picture.set_prediction(static_cast<int>(all[i].best));
    picture.set_score(score);
    picture.set_own_score(row[static_cast<size_t>(label)]);
    mistakes_.insert(place, std::move(picture));
    if (mistakes_.size() > kMostMistakes) mistakes_.pop_back();
  }
}

void EvaluatedClasses::add_mask(Net& net, const Tensor& scores, const Tensor& labels,
                                const SeenImages& images) {
  // Of each batch one, until there are enough.
  if (masks_.size() >= kMostMasks) return;
  const int64_t height = scores.shape()[2], width = scores.shape()[3], pixels = height * width;
  if (labels.count() % pixels != 0 || labels.count() == 0) return;
  const std::vector<Prediction> all = predictions(scores, labels, *scored_);
  std::vector<uint8_t> truth, mask;
  int64_t right = 0, counted = 0;
  for (int64_t i = 0; i < pixels; ++i) {
    const double label = labels.at(i);
    const int64_t best = all[static_cast<size_t>(i)].best;
    const bool is_ignored = scored_->ignore_label && label == *scored_->ignore_label;
    const auto shown = [](double c) { return static_cast<uint8_t>(c >= 0 && c < 255 ? c : 255); };
    truth.push_back(is_ignored ? 255 : shown(label));
    mask.push_back(shown(static_cast<double>(best)));
    if (is_ignored) continue;
    ++counted;
    right += static_cast<double>(best) == label ? 1 : 0;
  }
  Evaluation::Picture picture = images.picture(net, 0, kMaskSide);
  int64_t new_height = 0, new_width = 0;
  const auto png = [&](const std::vector<uint8_t>& classes) {
    const std::vector<uint8_t> small =
        smaller_classes(classes, height, width, kMaskSide, new_height, new_width);
    return png_of_classes(small, static_cast<int>(new_width), static_cast<int>(new_height));
  };
  picture.set_truth_mask(png(truth));
  picture.set_mask(png(mask));
  if (counted > 0) picture.set_accuracy(static_cast<double>(right) / static_cast<double>(counted));
  masks_.push_back(std::move(picture));
}

void EvaluatedClasses::finish(Evaluation& evaluation) {
  for (const std::string& note : notes_) evaluation.add_notes(note);
  if (!scored_ || confusion_.positions() + confusion_.ignored() == 0) return;
  Evaluation::Classes& out = *evaluation.mutable_classes();
  write_classes(out);
  write_confusions(out);
  for (Evaluation::Picture& picture : mistakes_) *out.add_mistakes() = std::move(picture);
  for (Evaluation::Picture& picture : masks_) *out.add_masks() = std::move(picture);
}

void EvaluatedClasses::write_classes(Evaluation::Classes& out) {
  out.set_scores(scored_->scores);
  out.set_labels(scored_->labels);
  out.set_of_pixels(of_pixels_);
  out.set_positions(confusion_.positions());
  out.set_ignored(confusion_.ignored());
  out.set_undecided(confusion_.undecided());
  if (const auto share = confusion_.accuracy()) out.set_accuracy(*share);
  if (const auto share = confusion_.top_k(); share && !of_pixels_) out.set_top5_accuracy(*share);
  if (const auto share = confusion_.mean_accuracy()) out.set_mean_accuracy(*share);
  if (const auto share = confusion_.mean_precision()) out.set_mean_precision(*share);
  if (const auto share = confusion_.mean_f1()) out.set_mean_f1(*share);
  if (const auto share = confusion_.mean_iou()) out.set_mean_iou(*share);
  std::vector<Evaluation::Curve> curves;
  ScoredHits together;
  for (int64_t c = 0; c < confusion_.classes(); ++c) {
    Evaluation::Class& one = *out.add_classes();
    const auto at = static_cast<size_t>(c);
    one.set_label(static_cast<int>(c));
    if (!names_.empty()) one.set_name(as_utf8(names_[at]));
    one.set_support(confusion_.labelled(c));
    one.set_predicted(confusion_.predicted(c));
    if (const auto share = confusion_.precision(c)) one.set_precision(*share);
    if (const auto share = confusion_.accuracy(c)) one.set_recall(*share);
    if (const auto share = confusion_.f1(c)) one.set_f1(*share);
    if (const auto share = confusion_.iou(c)) one.set_iou(*share);
    if (at >= hits_.size() || hits_[at].labels == 0) continue;
    curves.push_back(hits_[at].curve(static_cast<int>(c)));
    one.set_average_precision(curves.back().average_precision());
    together.labels += hits_[at].labels;
  }
  if (curves.empty()) return;
  for (const ScoredHits& one : hits_)
    together.hits.insert(together.hits.end(), one.hits.begin(), one.hits.end());
  *out.add_curves() = together.curve(-1);
  std::ranges::stable_sort(curves, std::ranges::less(), &Evaluation::Curve::average_precision);
  for (size_t i = 0; i < std::min(curves.size(), kMostCurves); ++i)
    *out.add_curves() = std::move(curves[i]);
}

void EvaluatedClasses::write_confusions(Evaluation::Classes& out) const {
  if (!confusion_.has_pairs()) return;
  const int64_t classes = confusion_.classes();
  std::vector<Evaluation::Confusion> all;
  for (int64_t label = 0; label < classes; ++label) {
    for (int64_t other = 0; other < classes; ++other) {
      const int64_t count = confusion_.count(label, other);
      if (classes <= kMostCountedClasses) out.add_counts(count);
      if (label == other || count == 0) continue;
      Evaluation::Confusion& one = all.emplace_back();
      one.set_label(static_cast<int>(label));
      one.set_prediction(static_cast<int>(other));
      one.set_count(count);
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Evaluation::Confusion::count);
  if (all.size() > kMostConfusions) all.resize(kMostConfusions);
  for (Evaluation::Confusion& one : all) *out.add_confusions() = std::move(one);
}

}  // namespace crema::tools
