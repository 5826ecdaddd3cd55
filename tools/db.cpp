// crema db: looks into databases.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "core/utf8.hpp"
#include "data/boxes/label_map.hpp"
#include "data/databases/export_images.hpp"
#include "data/databases/record_info.hpp"
#include "data/images/image_planes.hpp"
#include "data/records/record_range.hpp"
#include "data/records/record_scan.hpp"
#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/flags.hpp"

DEFINE_string(key, "", "The record with this key; \\xhh stands for a byte.");
DEFINE_string(from_key, "", "Records from this key on, whether it is there or not.");
DEFINE_string(to_key, "", "Records up to this key, whether it is there or not.");
DEFINE_bool(rgb, false,
            "Raw records have channels red, green, blue, as convert-cifar writes them. Default: "
            "blue, green, red.");
DECLARE_string(encode_type);
DECLARE_bool(skip_bad);
DECLARE_string(label_map_file);

namespace crema::tools {
namespace {

bool has_key_flag() {
  return !FLAGS_key.empty() || !FLAGS_from_key.empty() || !FLAGS_to_key.empty();
}

/// The records that the argument `text` or the flags for keys name.
RecordRange range_of(RecordSource& source, const std::string& text) {
  if (!has_key_flag()) return numbered_range(source, text);
  if (!text.empty())
    throw Error("records are given by number, '", text, "', and by key; give one of them");
  exclusive_flags("key", !FLAGS_key.empty(), "from_key or --to_key",
                  !FLAGS_from_key.empty() || !FLAGS_to_key.empty());
  if (!FLAGS_key.empty()) {
    const int64_t at = find_key(source, unprintable_key(FLAGS_key));
    return {at, at + 1};
  }
  RecordRange range{0, source.count()};
  if (!FLAGS_from_key.empty()) {
    range.first = first_from_key(source, unprintable_key(FLAGS_from_key));
  }
  if (!FLAGS_to_key.empty()) {
    const std::string last = unprintable_key(FLAGS_to_key);
    range.last = first_from_key(source, last);
    const bool is_there =
        range.last < source.count() && source.reader(ReadOrder::random)->key(range.last) == last;
    if (is_there) ++range.last;
  }
  if (range.first >= range.last)
    throw Error(source.name(), " has no record from key '", FLAGS_from_key, "' to key '",
                FLAGS_to_key, "'; `crema db list` shows the keys");
  return range;
}

/// A line of a list, or what is wrong.
struct Line {
  std::string text;
  bool bad = false;
};

int list(RecordSource& source, const RecordRange& range) {
  int64_t bad = 0;
  std::cout << "number\tkey\tlabel\tshape\tkind\n";
  const auto work = [&source](ScanThread& thread, int64_t index, Line& line) {
    const auto bad_line = [index](std::string_view key, const std::string& problem) -> Line {
      return {text(index, "\t", escaped_key(key), "\t\t\tbad: ", printable(problem)), true};
    };
    std::string problem;
    const auto record = read_for_scan(source, *thread.reader, index, problem);
    if (!record) {
      line = bad_line(thread.reader->key(index), problem);
      return;
    }
    try {
      const RecordInfo info = inspect_record(*record, *thread.decoder);
      line = {text(index, "\t", escaped_key(record->key), "\t", info.labels(","), "\t",
                   info.shape.str(), "\t", info.kind())};
    } catch (const Error& error) {
      line = bad_line(record->key, error.message());
    }
  };
  scan_records<Line>(
      source, range.first, range.last, ColorMode::as_stored, work,
      [&](int64_t, const Line& line) {
        std::cout << line.text << "\n";
        bad += line.bad;
      },
      Depth::own);
  return bad > 0 ? 1 : 0;
}

template <class T>
void print_channels(const RecordInfo& info, const T* pixels) {
  std::vector<T> planes(static_cast<size_t>(info.shape.count()));
  copy_planes(info.image, pixels, planes.data());
  const int64_t plane = info.shape.count(1);
  for (int64_t c = 0; c < info.shape[0]; ++c) {
    const auto begin = planes.begin() + c * plane, end = begin + plane;
    double sum = 0;
    for (auto at = begin; at != end; ++at) sum += static_cast<double>(*at);
    std::cout << "channel " << c << ": min " << static_cast<double>(*std::min_element(begin, end))
              << ", max " << static_cast<double>(*std::max_element(begin, end)) << ", mean "
              << sum / static_cast<double>(plane) << "\n";
  }
}

/// A line each, in pixels.
void print_boxes(const RecordInfo& info, const LabelNames& names,
                 const std::vector<std::string>& classes) {
  const ImageSize size{info.shape[1], info.shape[2]};
  for (const LabeledBox& labeled : info.boxes) {
    const Box box = to_pixels(labeled.box, size);
    std::cout << "box: label " << labeled.label << name_behind(labeled.label, names, classes)
              << ", instance " << labeled.instance << ", from (" << box.left << ", " << box.top
              << ") to (" << box.right << ", " << box.bottom << ")"
              << (labeled.difficult ? ", difficult" : "") << "\n";
  }
}

int show(RecordSource& source, const RecordRange& range) {
  LabelNames names;
  if (!FLAGS_label_map_file.empty()) names = LabelNames::read(FLAGS_label_map_file);
  const std::vector<std::string> classes = source.class_names();
  const auto reader = source.reader(ReadOrder::random);
  DatumDecoder decoder(ColorMode::as_stored, {}, Depth::own);
  for (int64_t i = range.first; i < range.last; ++i) {
    const Record record = reader->read(i);
    const RecordInfo info = inspect_record(record, decoder);
    const std::string labels = info.labels(", ");
    std::cout << (i > range.first ? "\n" : "") << "record: " << i << " of " << source.count()
              << "\nkey: " << escaped_key(record.key) << "\nbytes: " << info.bytes
              << (info.has_boxes ? "\nannotation: " : "\nlabel: ")
              << (labels.empty() ? "none, which counts as 0" : labels)
              << (info.has_label ? name_behind(info.label, {}, classes) : "")
              << "\nshape: " << info.shape.str() << "\nkind: " << info.kind() << "\n";
    print_boxes(info, names, classes);
    if (info.image.bytes != nullptr) {
      print_channels(info, info.image.bytes);
    } else {
      print_channels(info, info.image.floats);
    }
  }
  return 0;
}

int export_to(RecordSource& source, const RecordRange& range, const std::string& folder) {
  ExportOptions options;
  options.range = range;
  options.folder = folder;
  options.encode_type = FLAGS_encode_type == "jpeg" ? "jpg" : FLAGS_encode_type;
  options.rgb = FLAGS_rgb;
  options.skip_bad = FLAGS_skip_bad;
  options.progress = show_progress();
  const ConvertReport result = export_images(source, options);
  options.progress = {};  // ends its line
  report(result, folder);
  return 0;
}

int db(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Error("db takes ACTION DB; actions are list, show, export");
  const std::string& action = arguments[0];
  const std::vector<std::string> actions = {"list", "show", "export"};
  if (std::find(actions.begin(), actions.end(), action) == actions.end())
    throw Error("db has no action '", action, "'", did_you_mean(action, actions, "actions are"),
                "; write db ACTION DB");
  const size_t least = action == "export" ? 3 : 2;
  if (arguments.size() < least || arguments.size() > least + 1)
    throw Error("db ", action, " takes DB ", action == "export" ? "FOLDER " : "", "[RECORDS]; got ",
                arguments.size() - 1, " arguments");
  const auto source = open_database_argument(arguments[1]);
  const char* const all = action == "show" && !has_key_flag() ? "0" : "";
  const RecordRange range =
      range_of(*source, arguments.size() > least ? arguments[least] : std::string(all));
  if (action == "list") return list(*source, range);
  if (action == "show") return show(*source, range);
  return export_to(*source, range, arguments[2]);
}

}  // namespace

extern const Command kDb = {
    "db",
    "lists, shows and exports the records of a database or other source of images",
    "  crema db list DB [RECORDS]              number, key, label, shape and kind, a line each\n"
    "  crema db show DB [RECORDS]              all about a record, the first one by default\n"
    "  crema db export DB FOLDER [RECORDS]     image files, and a list of them\n"
    "\n"
    "DB is a database (LMDB, LevelDB), a folder with a folder of images for each class, a tar\n"
    "file or pattern of tar files, or a text file that lists images.\n"
    "\n"
    "RECORDS is a number from 0, or N:M for the records from N up to M, which is excluded; N: and\n"
    ":M leave one side open, and numbers below 0 count from the end: -5: are the last five.\n"
    "--key, --from_key and --to_key name records by key. In keys that are printed, and in those\n"
    "that are given, \\xhh stands for a byte: a backslash, or one that is unprintable or no "
    "UTF-8.\n"
    "\n"
    "show prints boxes in pixels, with the names of --label_map_file, else of class_names.txt in\n"
    "the database.\n"
    "\n"
    "export writes FOLDER/list.txt for `crema convert-imageset FOLDER/ FOLDER/list.txt DB`. Of a\n"
    "database with boxes it writes a text file of them beside each image, for\n"
    "`crema convert-annotations --label_type=txt FOLDER/ FOLDER/list.txt DB`.\n"
    "Compressed images stay as they are, raw ones become PNG. FOLDER appears under its name when\n"
    "it is whole.",
    {"backend", "root_folder", "class_names", "key", "from_key", "to_key", "encode_type", "rgb",
     "skip_bad", "label_map_file", "threads"},
    db};

}  // namespace crema::tools
