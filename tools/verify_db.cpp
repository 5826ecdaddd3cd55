// crema verify-db: finds the records of a database that training could not use.

#include <algorithm>
#include <iostream>

#include "core/utf8.hpp"
#include "data/databases/verify_database.hpp"
#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/terminal.hpp"

DEFINE_int64(classes, 0, "Labels have to be from 0 to this number, which is excluded. 0: any.");
DECLARE_bool(check_size);
DECLARE_string(label_map_file);

namespace crema::tools {
namespace {

constexpr size_t kMostShapes = 10;
constexpr size_t kMostClasses = 100;

void print_shapes(const VerifyReport& report) {
  std::vector<std::pair<std::vector<int64_t>, VerifyReport::Shapes>> shapes(report.shapes.begin(),
                                                                            report.shapes.end());
  std::stable_sort(shapes.begin(), shapes.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  for (size_t i = 0; i < std::min(shapes.size(), kMostShapes); ++i) {
    std::cout << "shape " << Shape(shapes[i].first).str() << ": " << shapes[i].second.count
              << (shapes.size() > 1 ? ", the first one '" + shapes[i].second.first_key + "'" : "")
              << "\n";
  }
  if (shapes.size() > kMostShapes) {
    std::cout << "and " << shapes.size() - kMostShapes << " other shapes\n";
  }
}

/// Of labels of boxes, with their names where a label map or the database has them.
void print_boxes(const VerifyReport& report, const LabelNames& names,
                 const std::vector<std::string>& classes) {
  if (report.with_boxes == 0) return;
  std::cout << "boxes: " << report.boxes << " (" << report.difficult << " difficult) in "
            << report.with_boxes << " records, " << report.without_boxes << " of them without\n";
  if (report.box_labels.size() > kMostClasses) return;
  for (const auto& [label, count] : report.box_labels) {
    std::cout << "boxes of label " << label << name_behind(label, names, classes) << ": " << count
              << "\n";
  }
}

/// `classes`: their names by label; may be none.
void print_labels(const VerifyReport& report, const LabelNames& names,
                  const std::vector<std::string>& classes) {
  if (report.float_labels > 0) {
    std::cout << "records with float labels: " << report.float_labels << "\n";
  }
  if (report.label_numbers.size() > 1) {
    for (const auto& [number, records] : report.label_numbers) {
      std::cout << "records with " << number << (number == 1 ? " label: " : " labels: ")
                << records.count << ", the first one '" << records.first_key << "'\n";
    }
    say(Severity::warning, "records have different numbers of labels, which data layers refuse");
  }
  print_boxes(report, names, classes);
  if (report.labels.empty()) return;
  std::cout << "labels: " << report.labels.begin()->first << " to " << report.labels.rbegin()->first
            << ", " << report.labels.size() << " different\n";
  if (report.labels.size() > kMostClasses) return;
  for (const auto& [label, count] : report.labels) {
    std::cout << "label " << label << name_behind(label, {}, classes) << ": " << count << "\n";
  }
}

int verify_db(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1)
    throw Error("verify-db takes DB, a database or other source of images; got ", arguments.size(),
                " arguments");
  const auto source = open_database_argument(arguments[0]);
  VerifyOptions options;
  options.classes = FLAGS_classes;
  options.one_size = FLAGS_check_size;
  options.color = color_flag();
  if (!FLAGS_label_map_file.empty()) options.names = LabelNames::read(FLAGS_label_map_file);
  options.progress = show_progress();
  const VerifyReport report = verify_database(*source, options);
  options.progress = {};  // ends its line
  for (const auto& problem : report.problems) say(Severity::error, problem);
  for (const auto& warning : report.warnings) say(Severity::warning, warning);
  std::cout << printable(source->name()) << "\nrecords: " << report.records << " (" << report.raw
            << " raw, " << report.encoded << " compressed, " << report.floats << " floats)\n";
  print_shapes(report);
  print_labels(report, options.names, source->class_names());
  std::cout << "bad records: " << report.bad << "\n";
  return report.ok() ? 0 : 1;
}

}  // namespace

extern const Command kVerifyDb = {
    "verify-db",
    "finds records of a database or other source of images that cannot be used",
    "  crema verify-db [FLAGS] DB\n"
    "\n"
    "DB is a database (LMDB, LevelDB), a folder with a folder of images for each class, a tar\n"
    "file or pattern of tar files, or a text file that lists images (--root_folder).\n"
    "\n"
    "Decodes all records. Logs those that cannot be decoded, with their keys, and JPEG images\n"
    "with damaged data, which are errors in data layers, too; with --classes=N also\n"
    "those with a label outside 0 to N-1, with --check_size also those of another size than the\n"
    "first one. Prints how many records have each shape and label, with the names of classes "
    "where\n"
    "folders, or the file class_names.txt of a database, have them. Of databases with boxes\n"
    "(crema convert-annotations) it counts those of each label; with --label_map_file, names are\n"
    "those of the map, and records with a label that it lacks are bad, too. The exit status is 1\n"
    "if there is a bad record.",
    {"backend", "root_folder", "class_names", "classes", "label_map_file", "check_size",
     "force_color", "force_gray", "threads"},
    verify_db};

}  // namespace crema::tools
