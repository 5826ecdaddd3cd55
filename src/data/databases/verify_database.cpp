#include "data/databases/verify_database.hpp"

#include <algorithm>
#include <cmath>

#include "crema/error.hpp"
#include "data/databases/record_info.hpp"
#include "data/records/record_scan.hpp"

namespace crema {
namespace {

/// `problem`: the record cannot be used.
struct Finding {
  RecordInfo info;
  ImageLoss loss;
  std::string problem;
};

void look(const RecordSource& source, ScanThread& thread, int64_t index, Finding& finding) {
  finding = {};
  const auto record = read_for_scan(source, *thread.reader, index, finding.problem);
  if (!record) return;
  try {
    finding.info = inspect_record(*record, *thread.decoder);
    finding.loss = thread.decoder->loss();
  } catch (const Error& error) {
    finding.problem = error.message();
  }
}

class Verifier {
 public:
  Verifier(const VerifyOptions& options, VerifyReport& report)
      : options_(options), report_(report) {}

  void take(const Finding& finding) {
    if (!finding.problem.empty()) return add_problem(finding.problem);
    const RecordInfo& info = finding.info;
    VerifyReport::Shapes& shapes = report_.shapes[info.shape.dims()];
    if (shapes.count++ == 0) shapes.first_key = info.key;
    if (++good_ == 1) {
      first_key_ = info.key;
      first_shape_ = info.shape;
    }
    (info.encoded ? report_.encoded : info.floats ? report_.floats : report_.raw)++;
    report_.deep += finding.loss.depth;
    report_.palettes += finding.loss.palette;
    std::string problem;
    if (options_.one_size && info.shape != first_shape_)
      problem = text("it is of ", info.shape.str(), ", the first one, '", first_key_, "', of ",
                     first_shape_.str());
    const std::string label_problem = info.has_boxes ? take_boxes(info) : take_labels(info);
    if (problem.empty()) problem = label_problem;
    if (!problem.empty()) add_problem(text("record '", info.key, "': ", problem));
  }

  void add_problem(const std::string& problem, int64_t records = 1) {
    report_.bad += records;
    if (report_.problems.size() < ConvertReport::kMostProblems) {
      report_.problems.push_back(problem);
    }
  }

  void warn() {
    if (boxes_lost_ > 0)
      warning(boxes_lost_,
              " boxes lie outside of their images or have no area; training leaves "
              "them out");
    if (const auto background = report_.box_labels.find(0); background != report_.box_labels.end())
      warning(background->second,
              " boxes have the label 0, which is that of the background in detection layers "
              "(background_label_id)");
    if (report_.with_boxes > 0 && report_.with_boxes < good_)
      warning(good_ - report_.with_boxes,
              " records have no boxes but labels; AnnotatedData refuses "
              "a mixture");
    if (report_.shapes.size() > 1 && report_.with_boxes == 0) {
      warning("images are of ", report_.shapes.size(), " sizes; data layers need crop_size, ",
              "or images of one size: convert-imageset --resize");
    }
    const int kinds = (report_.raw > 0) + (report_.encoded > 0) + (report_.floats > 0);
    if (report_.floats > 0 && kinds > 1)
      warning("some records hold bytes and some floats; data layers refuse the second kind");
    if (report_.deep > 0)
      warning(report_.deep,
              " images have more than 8 bits a channel, of which data layers take the upper 8; "
              "convert-imageset --keep_depth writes records of all bits");
    if (report_.palettes > 0)
      warning(report_.palettes,
              " images have a palette, whose colours become gray with force_gray; where their "
              "indices are labels, these are lost");
    if (report_.without_label > 0 && report_.without_label < good_)
      warning(report_.without_label, " records have no label, which counts as 0; the others do");
    warn_of_labels();
  }

 private:
  /// A record without a label counts as one with 0.
  static int64_t number_of_labels(const RecordInfo& info) {
    return std::max<int64_t>(1, static_cast<int64_t>(info.float_labels.size()));
  }

  /// Counts the boxes. Returns what is wrong with them.
  std::string take_boxes(const RecordInfo& info) {
    ++report_.with_boxes;
    report_.without_boxes += info.boxes.empty();
    std::string problem;
    for (const LabeledBox& labeled : info.boxes) {
      ++report_.boxes;
      report_.difficult += labeled.difficult;
      ++report_.box_labels[labeled.label];
      if (!clipped(labeled.box, {1, 1})) ++boxes_lost_;
      if (!problem.empty()) continue;
      if (options_.classes > 0 && labeled.label >= options_.classes)
        problem =
            text("the label ", labeled.label, " of a box is not in 0 to ", options_.classes - 1);
      try {
        options_.names.check(labeled.label);
      } catch (const Error& error) {
        problem = error.message();
      }
    }
    return problem;
  }

  std::string take_labels(const RecordInfo& info) {
    VerifyReport::Shapes& labels = report_.label_numbers[number_of_labels(info)];
    if (labels.count++ == 0) labels.first_key = info.key;
    return take_label(info);
  }

  /// Counts the label. Returns what is wrong with it.
  std::string take_label(const RecordInfo& info) {
    if (!info.float_labels.empty()) {
      ++report_.float_labels;
      return float_label_problem(info.float_labels);
    }
    if (!info.has_label) ++report_.without_label;
    ++report_.labels[info.label];
    const bool fits = options_.classes == 0 || (info.label >= 0 && info.label < options_.classes);
    if (fits) return {};
    return text("its label ", info.label, " is not in 0 to ", options_.classes - 1);
  }

  std::string float_label_problem(const std::vector<float>& labels) {
    if (options_.classes == 0) return {};
    if (labels.size() > 1) {
      ++several_labels_;
      return {};
    }
    const double label = labels[0];
    const bool fits =
        label >= 0 && label < static_cast<double>(options_.classes) && std::trunc(label) == label;
    if (fits) return {};
    return text("its label ", label, " is no whole number from 0 to ", options_.classes - 1);
  }

  void warn_of_labels() {
    if (several_labels_ > 0)
      warning(several_labels_, " records have several labels, which are not checked (--classes)");
    const auto& labels = report_.labels;
    if (labels.empty() || options_.classes > 0) return;
    if (labels.begin()->first < 0)
      warning("labels go down to ", labels.begin()->first,
              "; losses over classes take one such label, given as ignore_label");
    const int64_t highest = labels.rbegin()->first;
    const auto used = static_cast<int64_t>(std::distance(labels.lower_bound(0), labels.end()));
    if (highest >= used && highest < 100 * used)
      warning("labels go up to ", highest, ", and ", highest + 1 - used,
              " below it have no record; a net for them needs ", highest + 1, " outputs");
  }

  template <class... Parts>
  void warning(const Parts&... parts) {
    report_.warnings.push_back(text(parts...));
  }

  const VerifyOptions& options_;
  VerifyReport& report_;
  int64_t good_ = 0;            // records that were decoded
  int64_t boxes_lost_ = 0;      // in training
  int64_t several_labels_ = 0;  // records with them, where classes are checked
  std::string first_key_;
  Shape first_shape_;
};

}  // namespace

VerifyReport verify_database(RecordSource& source, const VerifyOptions& options) {
  if (options.classes < 0)
    throw Error("a database cannot have ", options.classes,
                " classes; give 0 for any, or a number");
  VerifyReport report;
  report.records = source.count();
  Verifier verifier(options, report);
  int64_t reached = 0;
  try {
    const auto work = [&source](ScanThread& thread, int64_t index, Finding& finding) {
      look(source, thread, index, finding);
    };
    scan_records<Finding>(source, 0, report.records, options.color, work,
                          [&](int64_t index, const Finding& finding) {
                            verifier.take(finding);
                            reached = index + 1;
                            if (options.progress) options.progress(reached, report.records);
                          });
  } catch (const Error& error) {
    verifier.add_problem(
        text(error.message(), "; records from number ", reached, " on were not reached"),
        report.records - reached);
  }
  verifier.warn();
  return report;
}

}  // namespace crema
