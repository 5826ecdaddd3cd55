#include "data/databases/export_images.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>

#include "crema/error.hpp"
#include "data/databases/folder_beside.hpp"
#include "data/databases/record_info.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_decoder.hpp"
#include "data/images/image_name.hpp"
#include "data/records/record_scan.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr const char* kList = "list.txt";

/// `path` without a '/' at its end. Error unless it is new, or an empty folder.
fs::path new_folder(const std::string& path) {
  if (path.empty()) throw Error("the folder for the images has no name");
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "images/"
  std::error_code code;
  // A link stands for the folder that it leads to: a folder cannot take a link's name.
  if (fs::is_directory(folder, code)) {
    folder = fs::canonical(folder, code);
    if (folder == fs::current_path(code))
      throw Error("the images cannot take the place of the folder '", folder.string(),
                  "', which this command runs in; name a new one");
  }
  if (fs::exists(fs::symlink_status(folder, code)) &&
      !(fs::is_directory(folder, code) && fs::is_empty(folder, code)))
    throw Error("'", folder.string(),
                "' exists already and is not an empty folder; name a new one");
  return folder;
}

/// The folder of images, which has its name when it is whole.
class ImageWriter {
 public:
  explicit ImageWriter(const std::string& path)
      : path_(new_folder(path)), folder_(path_, text("'", path_.string(), "'")) {}
  ~ImageWriter() {
    std::error_code ignored;
    fs::remove_all(folder_.fresh(), ignored);
  }
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  void write(const std::string& name, std::string_view bytes) const {
    const fs::path file = folder_.fresh() / name;
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) check(path_ / name, errno);
    int reason = write_all(descriptor, bytes);
    if (::close(descriptor) != 0 && reason == 0) reason = errno;
    check(path_ / name, reason);
  }

  void finish() {
    // All files of the disk at once: one by one takes longer than to write them.
    const int descriptor = ::open(folder_.fresh().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) check(path_, errno);
    const int reason = ::syncfs(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    check(path_, reason);
    std::error_code failed;
    folder_.take_name(failed);
    check(path_, failed.value());
    folder_.sync_name();
  }

 private:
  static void check(const fs::path& path, int reason) {
    if (reason != 0)
      throw Error("cannot write '", path.string(), "': ", std::strerror(reason),
                  hint_for_disk(reason));
  }

  fs::path path_;
  FolderBeside folder_;
};

struct Exported {
  std::string file, name, type, labels;
  bool has_boxes = false;
  std::string boxes;    // the text file of them
  std::string problem;  // not empty: there is no file
};

/// Whether all values are those of pixels of 16 bits, as convert_imageset() keeps them.
bool are_deep_pixels(const Image& image) {
  return std::all_of(image.floats, image.floats + image.count(), [](float value) {
    return value >= 0 && value <= 65535 && std::trunc(value) == value;
  });
}

/// The raw pixels as a PPM or PGM file, which any codec reads.
std::string netpbm_of(const RecordInfo& info, bool rgb) {
  const int64_t channels = info.shape[0], plane = info.shape.count(1);
  std::string file = text(channels == 3 ? "P6" : "P5", "\n", info.shape[2], " ", info.shape[1],
                          "\n", info.floats ? 65535 : 255, "\n");
  file.reserve(file.size() + 2 * static_cast<size_t>(info.shape.count()));
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t from = (rgb ? c : channels - 1 - c) * plane + i;
      if (info.floats) {
        const auto value = static_cast<unsigned>(info.image.floats[from]);
        file += static_cast<char>(value >> 8);
        file += static_cast<char>(value & 255);
      } else {
        file += static_cast<char>(info.image.bytes[from]);
      }
    }
  }
  return file;
}

/// The key without the ending of an image file, and without what a file name cannot have.
std::string file_name_of(std::string_view key) {
  constexpr size_t kLongest = 200;
  const size_t dot = key.rfind('.');
  if (dot > 0 && is_image_name(key)) key = key.substr(0, dot);
  if (key.size() > kLongest) key = key.substr(key.size() - kLongest);
  std::string name(key);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!std::isalnum(byte) && byte < 0x80 && std::strchr("._- ", c) == nullptr) c = '_';
    if (c == '\0') c = '_';
  }
  if (name.empty()) return "_";
  if (std::strchr(".- ", name.front()) != nullptr) name.front() = '_';
  if (name.back() == ' ') name.back() = '_';
  return name;
}

/// Of the key of a file: its name and the folder that it is in, which may be its class.
std::string_view short_path(std::string_view key) {
  const size_t name = key.rfind('/');
  if (name == std::string_view::npos || name == 0) return key;
  const size_t folder = key.find_last_of("/ ", name - 1);
  return folder == std::string_view::npos ? key : key.substr(folder + 1);
}

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
      if (info.encoded) {
        keep_compressed(info, out);
      } else {
        compress(info, out);
      }
    } catch (const Error& error) {
      out.problem = error.message();
    }
  }

 private:
  void keep_compressed(RecordInfo& info, Exported& out) const {
    out.type = info.file_type;
    if (!out.type.empty() && (options_.encode_type.empty() || options_.encode_type == out.type)) {
      out.file = std::move(info.file);
      return;
    }
    ImageDecoder decoder;
    decoder.open(info.file, ColorMode::as_stored, Depth::own);
    out.type = options_.encode_type.empty() ? "png" : options_.encode_type;
    out.file = ImageCodec::encode(decoder.whole(), out.type);
  }

  void compress(const RecordInfo& info, Exported& out) const {
    if (info.floats && !are_deep_pixels(info.image))
      throw Error("record '", info.key,
                  "' holds floats, which is no image; leave it out "
                  "(--skip_bad), or read it with extract-features");
    if (info.shape[0] != 1 && info.shape[0] != 3)
      throw Error("record '", info.key, "' has ", info.shape[0],
                  " channels, and image files 1 or 3; leave it out (--skip_bad)");
    ImageCodec codec;
    const Image image =
        codec.decode(netpbm_of(info, options_.rgb), ColorMode::as_stored, Depth::own);
    out.type = options_.encode_type.empty() ? "png" : options_.encode_type;
    out.file = ImageCodec::encode(image, out.type);
  }

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
      if (!options.skip_bad) throw Error(source.name(), ": ", exported.problem);
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
  folder.finish();
  return report;
}

}  // namespace crema
