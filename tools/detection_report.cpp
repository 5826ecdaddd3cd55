#include "tools/detection_report.hpp"

#include <vector>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {

DetectionReport::DetectionReport(const Net& net, ApVersion version)
    : version_(version), names_(class_names(net)) {
  for (const std::string& output : detection_outputs(net)) scores_[output];
}

void DetectionReport::add(Net& net) {
  for (auto& [output, scores] : scores_) scores.add(net.output(output));
}

void DetectionReport::log(bool per_class) const {
  for (const auto& [output, scores] : scores_) {
    for (const DetectionScores::Class& one : scores.classes(version_)) {
      const std::string name = class_name(names_, one.label);
      if (per_class)
        say(text("class", one.label, ": ", one.average_precision,
                 name.empty() ? "" : " (" + printable(name) + ")"));
    }
    if (const auto mean = scores.mean(version_)) {
      say(text(printable(output), " = ", *mean));
    } else {
      say(Severity::warning, text(printable(output), ": no batch had a true box"));
    }
  }
}

std::string DetectionReport::json() const {
  if (scores_.empty()) return {};
  std::vector<std::string> outputs;
  for (const auto& [output, scores] : scores_) {
    std::vector<std::string> classes;
    for (const DetectionScores::Class& one : scores.classes(version_)) {
      const std::string name = class_name(names_, one.label);
      classes.push_back(text("{\"label\": ", one.label,
                             name.empty() ? "" : ", \"name\": " + json_string(name),
                             ", \"boxes\": ", one.boxes, ", \"detections\": ", one.detections,
                             ", \"average_precision\": ", json_number(one.average_precision), "}"));
    }
    const auto mean = scores.mean(version_);
    outputs.push_back(text(json_string(output),
                           ": {\"mean_average_precision\": ", mean ? json_number(*mean) : "null",
                           ", \"classes\": [", joined(classes), "]}"));
  }
  return text(", \"detections\": {", joined(outputs), "}");
}

}  // namespace crema::tools
