#include "tools/evaluated_detections.hpp"

#include <algorithm>

#include "core/utf8.hpp"
#include "layer_support/detection_rows.hpp"
#include "proto/net.pb.h"
#include "tools/record_pass.hpp"
#include "tools/seen_images.hpp"

namespace crema::tools {
namespace {

constexpr size_t kMostPictures = 12, kMostBoxes = 30;
constexpr int kPictureSide = 320;
constexpr double kLeastConfidence = 0.3;  // of boxes that are drawn

void set_edges(Evaluation::Box& box, const Tensor& rows, int64_t first) {
  box.set_left(rows.at(first));
  box.set_top(rows.at(first + 1));
  box.set_right(rows.at(first + 2));
  box.set_bottom(rows.at(first + 3));
}

}  // namespace

EvaluatedDetections::EvaluatedDetections(const NetParameter& param) {
  for (const LayerParameter& layer : param.layer()) {
    if (layer.type() != "DetectionEvaluate" || layer.bottom_size() < 2 || layer.top_size() < 1)
      continue;
    reads_[layer.top(0)] = {layer.bottom(0), layer.bottom(1)};
  }
}

std::vector<std::string> EvaluatedDetections::blobs() const {
  std::vector<std::string> all;
  for (const auto& [top, reads] : reads_) {
    all.push_back(reads.detections);
    all.push_back(reads.truth);
  }
  return all;
}

void EvaluatedDetections::begin(const Net& net) {
  for (const std::string& output : detection_outputs(net)) outputs_[output];
  names_ = class_names(net);
}

void EvaluatedDetections::add(Net& net, const RecordPass& pass, const SeenImages& images) {
  for (auto& [name, output] : outputs_) {
    const Tensor rows = net.output(name);
    constexpr int64_t kRow = 5;  // image, label, confidence, right, wrong
    for (int64_t i = 0; i + kRow <= rows.count(); i += kRow) {
      ScoredHits& of = output.classes[static_cast<int64_t>(rows.at(i + 1))];
      if (rows.at(i) < 0) {
        of.labels += static_cast<int64_t>(rows.at(i + 2));
      } else if (rows.at(i + 3) != 0 || rows.at(i + 4) != 0) {
        of.hits.push_back({rows.at(i + 2), rows.at(i + 3) != 0});
      }
    }
    const auto reads = reads_.find(name);
    if (!images.any() || reads == reads_.end()) continue;
    // As many of each batch as fill the page at the end.
    const auto batches = static_cast<size_t>(std::max(pass.batches(), 1));
    const size_t each = (kMostPictures + batches - 1) / batches;
    const int64_t samples = pass.records() > 0 ? pass.counted() : 1;
    for (size_t k = 0; k < each && output.pictures.size() < kMostPictures; ++k) {
      const auto sample = static_cast<int64_t>(k) * samples / static_cast<int64_t>(each);
      if (k > 0 && sample == (static_cast<int64_t>(k) - 1) * samples / static_cast<int64_t>(each))
        continue;
      add_picture(net, reads->second, images, sample, output);
    }
  }
}

void EvaluatedDetections::add_picture(Net& net, const Reads& reads, const SeenImages& images,
                                      int64_t sample, Output& output) {
  try {
    Evaluation::Picture picture = images.picture(net, sample, kPictureSide);
    const Tensor truth = net.output(reads.truth);
    for (int64_t i = 0; i + kTruthRow <= truth.count(); i += kTruthRow) {
      if (truth.at(i) != static_cast<double>(sample)) continue;
      Evaluation::Box& box = *picture.add_boxes();
      box.set_label(static_cast<int>(truth.at(i + 1)));
      box.set_is_truth(true);
      set_edges(box, truth, i + 3);
    }
    const Tensor rows = net.output(reads.detections);
    std::vector<Evaluation::Box> found;
    for (int64_t i = 0; i + kDetectionRow <= rows.count(); i += kDetectionRow) {
      if (rows.at(i) != static_cast<double>(sample) || rows.at(i + 1) < 0 ||
          !(rows.at(i + 2) >= kLeastConfidence))
        continue;
      Evaluation::Box& box = found.emplace_back();
      box.set_label(static_cast<int>(rows.at(i + 1)));
      box.set_score(rows.at(i + 2));
      set_edges(box, rows, i + 3);
    }
    std::ranges::stable_sort(found, std::ranges::greater(), &Evaluation::Box::score);
    if (found.size() > kMostBoxes) found.resize(kMostBoxes);
    for (Evaluation::Box& box : found) *picture.add_boxes() = std::move(box);
    output.pictures.push_back(std::move(picture));
  } catch (const Error& error) {
    notes_.push_back(text("An image with boxes is missing: ", printable(error.what())));
  }
}

void EvaluatedDetections::finish(Evaluation& evaluation) {
  for (const std::string& note : notes_) evaluation.add_notes(note);
  for (auto& [name, output] : outputs_) {
    Evaluation::Detections& out = *evaluation.add_detections();
    out.set_output(name);
    out.set_ap_version("Integral");
    double sum = 0;
    int64_t classes = 0;
    for (auto& [label, of] : output.classes) {
      if (of.labels == 0) continue;
      const Evaluation::Curve curve = of.curve(static_cast<int>(label));
      Evaluation::Class& one = *out.add_classes();
      one.set_label(static_cast<int>(label));
      if (const std::string own = class_name(names_, label); !own.empty())
        one.set_name(as_utf8(own));
      one.set_support(of.labels);
      one.set_predicted(static_cast<int64_t>(of.hits.size()));
      const auto right = std::ranges::count_if(of.hits, &ScoredHits::Hit::right);
      one.set_recall(static_cast<double>(right) / static_cast<double>(of.labels));
      one.set_average_precision(curve.average_precision());
      sum += curve.average_precision();
      ++classes;
      *out.add_curves() = curve;
    }
    if (classes > 0) out.set_mean_average_precision(sum / static_cast<double>(classes));
    for (Evaluation::Picture& picture : output.pictures) *out.add_pictures() = std::move(picture);
  }
}

}  // namespace crema::tools
