#include <array>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "data/converters/converters.hpp"
#include "data/converters/gzip_file.hpp"
#include "data/databases/database_writer.hpp"
#include "data/records/class_list.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr int kChannels = 3, kSide = 32;
constexpr size_t kPixels = size_t{kChannels} * kSide * kSide;
constexpr std::string_view kWayOut =
    "; get the binary version of the data set (files *.bin, each plain or .gz)";

/// The files of a set, and what their records are: `label_bytes` labels and the pixels.
struct Part {
  std::vector<std::string> files;
  int64_t records_per_file = 0;
};

struct CifarSet {
  std::string name;
  Part train, test;
  size_t label_bytes = 1;
  size_t label_at = 0;  // of the label wanted
  int classes = 10;
  std::string names = "batches.meta.txt";  // the file with those of the classes
};

CifarSet set_of(const ConvertCifarOptions& options) {
  if (options.kind == CifarKind::cifar100) {
    return {.name = "cifar100",
            .train = {.files = {"train.bin"}, .records_per_file = 50000},
            .test = {.files = {"test.bin"}, .records_per_file = 10000},
            .label_bytes = 2,
            .label_at = options.coarse ? size_t{0} : size_t{1},
            .classes = options.coarse ? 20 : 100,
            .names = options.coarse ? "coarse_label_names.txt" : "fine_label_names.txt"};
  }
  if (options.coarse)
    throw Error("CIFAR-10 has no coarse labels; leave --coarse out, or give --kind=cifar100");
  CifarSet set{.name = "cifar10", .test = {.files = {"test_batch.bin"}, .records_per_file = 10000}};
  set.train.records_per_file = 10000;
  for (int batch = 1; batch <= 5; ++batch) {
    set.train.files.push_back(text("data_batch_", batch, ".bin"));
  }
  return set;
}

std::vector<std::string> find_files(const std::string& folder, const Part& part) {
  std::vector<std::string> paths;
  for (const auto& name : part.files) {
    const fs::path python = fs::path(folder) / fs::path(name).stem();
    const std::string hint =
        fs::exists(python) ? text("; '", python.string(), "' is of the Python version") : "";
    paths.push_back(plain_or_gzip(folder, name, text(hint, kWayOut)));
  }
  return paths;
}

class Converter {
 public:
  Converter(const CifarSet& set, int64_t total, const ConvertProgress& progress)
      : set_(set), total_(total), progress_(progress) {
    datum_.set_channels(kChannels);
    datum_.set_height(kSide);
    datum_.set_width(kSide);
  }

  /// Adds the records of the files to a database.
  void convert(const std::vector<std::string>& paths, int64_t records_per_file,
               DatabaseWriter& writer) {
    for (const auto& path : paths) {
      GzipFile file(path);
      for (int64_t i = 0; i < records_per_file; ++i) {
        read_record(file, i, records_per_file);
        add(writer);
        if (progress_) progress_(++done_, total_);
      }
      std::array<uint8_t, 1> more;
      if (file.read(more) != 0)
        throw Error("'", path, "' holds more than ", records_per_file, " records of ",
                    set_.label_bytes + kPixels, " bytes; is it of ", set_.name, "?", kWayOut);
    }
  }

 private:
  void read_record(GzipFile& file, int64_t index, int64_t count) {
    const size_t size = set_.label_bytes + kPixels;
    bytes_.resize(size);
    if (file.read(bytes_) != size)
      throw Error("'", file.path(), "' ends in record ", index, " of ", count, " of ", size,
                  " bytes; is it whole, and of ", set_.name, "?", kWayOut);
    const int label = bytes_[set_.label_at];
    if (label >= set_.classes)
      throw Error("'", file.path(), "': record ", index, " has label ", label,
                  ", and the labels of ", set_.name, " are 0 to ", set_.classes - 1,
                  "; the file is damaged or of another set", kWayOut);
    datum_.set_label(label);
    datum_.set_data(bytes_.data() + set_.label_bytes, kPixels);
  }

  void add(DatabaseWriter& writer) {
    if (!datum_.SerializeToString(&record_)) throw Error("an image cannot be made a record");
    std::array<char, 24> key;
    std::snprintf(key.data(), key.size(), "%05lld", static_cast<long long>(writer.count()));
    writer.put(key.data(), record_);
  }

  const CifarSet& set_;
  int64_t total_, done_ = 0;
  const ConvertProgress& progress_;
  std::vector<uint8_t> bytes_;
  Datum datum_;
  std::string record_;
};

/// None where the files came without those of the names, or with another one.
std::vector<std::string> class_names(const std::string& folder, const CifarSet& set) {
  const fs::path file = fs::path(folder) / set.names;
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return {};
  std::vector<std::string> names = read_class_list(file.string());
  if (names.size() != static_cast<size_t>(set.classes))
    throw Error("'", file.string(), "' names ", names.size(), " classes, and ", set.name, " has ",
                set.classes, "; get the files of the set again, or remove this one");
  return names;
}

}  // namespace

ConvertCifarReport convert_cifar(const ConvertCifarOptions& options) {
  const CifarSet set = set_of(options);
  const DatabaseKind kind = database_kind(options.backend);
  const char* const ending = kind == DatabaseKind::lmdb ? "lmdb" : "leveldb";
  if (!fs::is_directory(options.input))
    throw Error("there is no folder '", options.input, "'",
                path_advice(options.input, text("name the one with the files of ", set.name)))
        .about(options.input);
  const auto train_files = find_files(options.input, set.train);
  const auto test_files = find_files(options.input, set.test);
  ConvertCifarReport report;
  const fs::path folder = options.output;
  report.train_path = (folder / (set.name + "_train_" + ending)).string();
  report.test_path = (folder / (set.name + "_test_" + ending)).string();

  const std::vector<std::string> names = class_names(options.input, set);
  const auto train = make_database_writer(kind, report.train_path, options.overwrite);
  const auto test = make_database_writer(kind, report.test_path, options.overwrite);
  for (const auto* part : {&train, &test}) (*part)->name_classes(names);
  const auto records = [](const Part& part) {
    return static_cast<int64_t>(part.files.size()) * part.records_per_file;
  };
  Converter converter(set, records(set.train) + records(set.test), options.progress);
  converter.convert(train_files, set.train.records_per_file, *train);
  converter.convert(test_files, set.test.records_per_file, *test);
  for (const auto* part : {&train, &test}) (*part)->sync();
  for (const auto* part : {&train, &test}) (*part)->finish();
  report.train.written = train->count();
  report.test.written = test->count();
  return report;
}

}  // namespace crema
