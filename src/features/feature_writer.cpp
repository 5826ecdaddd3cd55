#include "features/feature_writer.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "core/dispatch.hpp"
#include "crema/error.hpp"
#include "data/databases/database_writer.hpp"
#include "data/records/record_labels.hpp"
#include "features/npy_file.hpp"
#include "model/hdf5_file.hpp"
#include "model/whole_file.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace fs = std::filesystem;
namespace {

/// Sets channels, height and width; what a row has beyond three axes is folded into the width.
void set_shape(const Shape& rows, Datum& datum) {
  const auto side = [](int64_t value) {
    if (value > std::numeric_limits<int32_t>::max())
      throw Error("a row of ", value, " values is too large for a record");
    return static_cast<int32_t>(value);
  };
  datum.set_channels(side(rows.dim_or_1(1)));
  datum.set_height(side(rows.dim_or_1(2)));
  datum.set_width(side(rows.rank() > 3 ? rows.count(3) : 1));
}

class DatabaseFeatures final : public FeatureWriter {
 public:
  DatabaseFeatures(DatabaseKind kind, const FeatureFile& file)
      : writer_(make_database_writer(kind, file.path, file.overwrite)) {
    writer_->name_classes(file.class_names);
  }

  void append(const FeatureRows& rows) override {
    const Tensor& blob = rows.blobs.at(0);
    set_shape(blob.shape(), datum_);
    const int64_t size = blob.shape().count(1);
    const size_t each = rows.labels.size() / std::max<size_t>(1, rows.keys.size());
    dispatch_float(blob.dtype(), [&](auto zero) {
      const auto* values = blob.read<decltype(zero)>();
      for (size_t i = 0; i < rows.keys.size(); ++i, values += size) {
        datum_.clear_float_data();
        datum_.mutable_float_data()->Reserve(static_cast<int>(size));
        for (int64_t k = 0; k < size; ++k) datum_.add_float_data(static_cast<float>(values[k]));
        if (each > 0) set_labels(labels_of(std::span(rows.labels).subspan(i * each, each)), datum_);
        if (!datum_.SerializeToString(&record_))
          throw Error("the features of '", rows.keys[i], "' are too many for a record");
        with_hint([&] { writer_->put(rows.keys[i], record_); });
      }
    });
  }
  // The last records are written here.
  void sync() override {
    with_hint([&] { writer_->sync(); });
  }
  void finish() override { writer_->finish(); }

 private:
  /// Calls write(). What it says of a key gets the way out.
  template <class Write>
  static void with_hint(const Write& write) {
    try {
      write();
    } catch (const KeyError& error) {
      throw Error(error.message(), " (--keys=index numbers the rows instead)").about(error.path());
    }
  }

  std::unique_ptr<DatabaseWriter> writer_;
  Datum datum_;
  std::string record_;
};

class Hdf5Features final : public FeatureWriter {
 public:
  explicit Hdf5Features(const FeatureFile& file)
      : names_(file.names), classes_(file.class_names), writer_(file.path) {
    for (const auto& name : names_) {
      if (name == kKeys || (name == kClasses && !classes_.empty()))
        throw Error("blob '", name, "' has the name of the array of ",
                    name == kKeys ? "keys" : "names of classes", " in '", file.path,
                    "'; write it in another format");
    }
  }

  void append(const FeatureRows& rows) override {
    for (size_t i = 0; i < names_.size(); ++i) writer_.append(names_[i], rows.blobs[i]);
    keys_.insert(keys_.end(), rows.keys.begin(), rows.keys.end());
  }
  void sync() override {
    writer_.put_texts(kKeys, keys_);
    if (!classes_.empty()) writer_.put_texts(kClasses, classes_);
    writer_.sync();
  }
  void finish() override { writer_.finish(); }

 private:
  static constexpr const char* kKeys = "keys";
  static constexpr const char* kClasses = "class_names";
  std::vector<std::string> names_, classes_, keys_;
  Hdf5Writer writer_;
};

/// A key as it can stand in a line: line ends and backslashes as \n, \r and two backslashes.
std::string line_of(const std::string& key) {
  std::string line;
  for (const char c : key) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  return line;
}

std::string keys_path(const std::string& path) { return path + ".keys.txt"; }
std::string classes_path(const std::string& path) { return path + ".classes.txt"; }

/// The array, and text files beside it.
class NpyFeatures final : public FeatureWriter {
 public:
  explicit NpyFeatures(const FeatureFile& file)
      : array_(file.path), keys_(keys_path(file.path)), classes_path_(classes_path(file.path)) {
    if (file.class_names.empty()) return;
    classes_.emplace(classes_path_);
    for (const std::string& name : file.class_names) classes_->append(line_of(name) + "\n");
  }

  void append(const FeatureRows& rows) override {
    array_.append(rows.blobs.at(0));
    for (const auto& key : rows.keys) keys_.append(line_of(key) + "\n");
  }
  void sync() override {
    keys_.sync();
    if (classes_) classes_->sync();
    array_.sync();
  }
  void finish() override {
    keys_.finish();
    if (classes_) {
      classes_->finish();
    } else {
      // Those of an array that was here before are not of this one.
      std::error_code none;
      fs::remove(classes_path_, none);
    }
    array_.finish();
  }

 private:
  NpyWriter array_;
  WholeFile keys_;
  std::string classes_path_;
  std::optional<WholeFile> classes_;
};

/// A field of a CSV file, in quotes where it has to be.
std::string field_of(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

class CsvFeatures final : public FeatureWriter {
 public:
  explicit CsvFeatures(const FeatureFile& file)
      : path_(file.path), name_(file.names.at(0)), classes_(file.class_names), file_(file.path) {}

  void append(const FeatureRows& rows) override {
    const Tensor& blob = rows.blobs.at(0);
    const int64_t size = blob.shape().count(1);
    if (size_ < 0) {
      names_labels_ = !classes_.empty() && rows.labels.size() == rows.keys.size();
      write_header(size);
    }
    if (size != size_)
      throw Error("cannot add rows of ", size, " values to '", path_, "', which has rows of ",
                  size_, "; write features of several shapes to LMDB");
    dispatch_float(blob.dtype(), [&](auto zero) {
      const auto* values = blob.read<decltype(zero)>();
      std::string line;
      for (size_t i = 0; i < rows.keys.size(); ++i) {
        line = field_of(rows.keys[i]);
        for (int64_t k = 0; k < size; ++k) append_number(*values++, line);
        if (names_labels_) line += "," + field_of(class_of(rows.labels[i]));
        file_.append(line + "\n");
      }
    });
  }
  void sync() override {
    if (size_ < 0) write_header(0);
    file_.sync();
  }
  void finish() override { file_.finish(); }

 private:
  void write_header(int64_t size) {
    size_ = size;
    std::string line = "key";
    for (int64_t k = 0; k < size; ++k) {
      line += ',';
      line += field_of(text(name_, "_", k));
    }
    // Last, so that columns of values are where they are without it.
    if (names_labels_) line += ",class";
    file_.append(line + "\n");
  }

  /// "" for a label without a name.
  std::string class_of(double label) const {
    const bool is_place =
        label >= 0 && label < static_cast<double>(classes_.size()) && label == std::floor(label);
    return is_place ? classes_[static_cast<size_t>(label)] : "";
  }

  /// The shortest text that reads back to the same number.
  template <class T>
  static void append_number(T value, std::string& line) {
    char text[32];
    const auto [end, code] = std::to_chars(text, text + sizeof text, value);
    line += ',';
    line.append(text, end);
  }

  std::string path_, name_;
  std::vector<std::string> classes_;
  bool names_labels_ = false;  // a row has one label
  WholeFile file_;
  int64_t size_ = -1;  // values in a row; -1: no row was written
};

void check_file(const std::string& path, bool overwrite) {
  if (path.empty()) throw Error("the features' file has no name");
  check_output_file(path);
  std::error_code code;
  if (fs::exists(path, code) && !overwrite)
    throw Error("'", path,
                "' exists already; remove it, choose another name, or ask to overwrite it "
                "(--overwrite)");
}

}  // namespace

FeatureFormat feature_format(const std::string& name) {
  const std::vector<std::pair<std::string, FeatureFormat>> formats = {
      {"lmdb", FeatureFormat::lmdb},
      {"leveldb", FeatureFormat::leveldb},
      {"hdf5", FeatureFormat::hdf5},
      {"npy", FeatureFormat::npy},
      {"csv", FeatureFormat::csv}};
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::vector<std::string> names;
  for (const auto& [known, format] : formats) {
    if (known == lower) return format;
    names.push_back(known);
  }
  throw Error("features cannot be written as '", name, "'",
              did_you_mean(name, names, "formats are"));
}

std::vector<std::string> files_beside_npy(const std::string& path) {
  return {keys_path(path), classes_path(path)};
}

std::unique_ptr<FeatureWriter> make_feature_writer(const FeatureFile& file) {
  if (file.names.size() != 1 && file.format != FeatureFormat::hdf5)
    throw Error("'", file.path, "' takes one blob, and is given ", file.names.size(),
                "; name a file for each blob, or write HDF5");
  if (file.format == FeatureFormat::lmdb)
    return std::make_unique<DatabaseFeatures>(DatabaseKind::lmdb, file);
  if (file.format == FeatureFormat::leveldb)
    return std::make_unique<DatabaseFeatures>(DatabaseKind::leveldb, file);
  check_file(file.path, file.overwrite);
  if (file.format == FeatureFormat::hdf5) return std::make_unique<Hdf5Features>(file);
  if (file.format == FeatureFormat::npy) {
    for (const std::string& beside : files_beside_npy(file.path))
      check_file(beside, file.overwrite);
    return std::make_unique<NpyFeatures>(file);
  }
  return std::make_unique<CsvFeatures>(file);
}

}  // namespace crema
