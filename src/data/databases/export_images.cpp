#include "data/databases/export_images.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "crema/error.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/image_writer.hpp"
#include "data/databases/record_image.hpp"
#include "data/databases/record_info.hpp"
#include "data/records/record_scan.hpp"

namespace crema {
namespace {

constexpr const char* kList = "list.txt";

struct Exported {
  std::string file, name, type, labels;
  bool has_boxes = false;
  std::string boxes;    // the text file of them
  std::string problem;  // not empty: there is no file
};

/// As convert_annotations() reads it, with all digits that coordinates have.
std::string boxes_text(const RecordInfo& info) {
  std::string text;
  for (const LabeledBox& labeled : info.boxes) {
    const Box box = to_pixels(labeled.box, {info.shape[1], info.shape[2]});
    std::ostringstream line;
    line.imbue(std::locale::classic());
    line.precision(std::numeric_limits<float>::max_digits10);
    line << labeled.label << " " << box.left << " " << box.top << " " << box.right << " "
         << box.bottom << (labeled.difficult ? " 1" : "") << "\n";
    text += line.str();
  }
  return text;
}

class Exporter {
 public:
  explicit Exporter(const ExportOptions& options) : options_(options) {
    const std::string& type = options.encode_type;
    if (!type.empty() && type != "png" && type != "jpg")
      throw Error("images cannot be exported as '", type, "'; give --encode_type=png or jpg");
  }

  /// Safe to call from several threads.
  void convert(const RecordSource& source, ScanThread& thread, int64_t index, Exported& out) const {
    out = {};
    const auto record = read_for_scan(source, *thread.reader, index, out.problem);
    if (!record) return;
    try {
      RecordInfo info = inspect_record(*record, *thread.decoder);
      out.name = file_name_of(source.is_files() ? short_path(record->key) : record->key);
      out.labels = info.labels(" ");
      out.has_boxes = info.has_boxes;
      // A line that names two files is split at a blank.
      if (out.has_boxes) std::ranges::replace(out.name, ' ', '_');
      out.boxes = boxes_text(info);
      RecordImage image = image_of(info, options_.encode_type, options_.rgb);
      out.type = std::move(image.type);
      out.file = std::move(image.file);
    } catch (const Error& error) {
      out.problem = error.message();
    }
  }

 private:
  const ExportOptions& options_;
};

}  // namespace

ConvertReport export_images(RecordSource& source, const ExportOptions& options) {
  const Exporter exporter(options);
  ImageWriter folder(options.folder);
  ConvertReport report;
  std::set<std::string> names;
  std::string list;
  int64_t without_label = 0;
  const auto work = [&](ScanThread& thread, int64_t index, Exported& out) {
    exporter.convert(source, thread, index, out);
  };
  const auto take = [&](int64_t index, Exported& exported) {
    if (!exported.problem.empty()) {
      if (!options.skip_bad)
        throw Error(source.name(), ": ", exported.problem,
                    " (--skip_bad leaves out what cannot be exported)");
      ++report.bad;
      if (report.problems.size() < ConvertReport::kMostProblems) {
        report.problems.push_back(exported.problem);
      }
    } else {
      std::string name = exported.name + "." + exported.type;
      for (int copy = 2; !names.insert(name).second; ++copy) {
        name = text(exported.name, "_", copy, ".", exported.type);
      }
      folder.write(name, exported.file);
      if (exported.has_boxes) {
        const std::string boxes = name + ".boxes.txt";
        folder.write(boxes, exported.boxes);
        list += text(name, " ", boxes, "\n");
      } else {
        if (exported.labels.empty()) ++without_label;
        list += text(name, " ", exported.labels.empty() ? "0" : exported.labels, "\n");
      }
      ++report.written;
    }
    if (options.progress) options.progress(index + 1 - options.range.first, options.range.count());
  };
  scan_records<Exported>(source, options.range.first, options.range.last, ColorMode::as_stored,
                         work, take, Depth::own);
  if (report.written == 0)
    throw Error(source.name(),
                ": none of the records could be exported; the first: ", report.problems.front());
  if (without_label > 0)
    report.warnings.push_back(text(without_label, " records have no label; ", kList, " says 0"));
  folder.write(kList, list);
  std::string classes;
  for (const std::string& name : source.class_names()) classes += name + "\n";
  if (!classes.empty()) folder.write(kClassFile, classes);
  folder.finish();
  return report;
}

}  // namespace crema
