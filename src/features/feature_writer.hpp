// Rows of blobs in files: one row a record, with its key.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/tensor.hpp"

namespace crema {

/// `lmdb`, `leveldb`: a Datum each row, its values in float_data, under the row's key; with the
/// label or labels, where there are some; a whole one in label, others in float_label. `hdf5`: an
/// array of rows for each blob, and the array "keys". `npy`: one array in NumPy's format, and text
/// files beside it: <path>.keys.txt, with a key a line, and <path>.classes.txt (FeatureFile).
/// `csv`: a line each row, the key first.
enum class FeatureFormat : uint8_t { lmdb, leveldb, hdf5, npy, csv };

/// Of "lmdb", "leveldb", "hdf5", "npy" and "csv", in any case. Error for others.
FeatureFormat feature_format(const std::string& name);

/// Rows that belong to the same records.
struct FeatureRows {
  std::vector<Tensor> blobs;      // (N, ...), contiguous, f32 or f64; one for each of the names
  std::vector<std::string> keys;  // (N)
  std::vector<double> labels;     // (N), or (N, L) row after row, or none
};

/// The file or database appears under its name in finish(), and not before.
class FeatureWriter {
 public:
  virtual ~FeatureWriter() = default;
  /// Error for a row of another shape than the first one, except in databases; for a key that comes
  /// twice in a database.
  virtual void append(const FeatureRows& rows) = 0;
  /// Writes all to the disk, not under its name yet. No append afterwards.
  virtual void sync() = 0;
  /// Gives what sync() wrote its name.
  virtual void finish() = 0;
};

struct FeatureFile {
  FeatureFormat format = FeatureFormat::lmdb;
  std::string path;
  /// The blobs; several in HDF5 only.
  std::vector<std::string> names;
  /// Of the labels, or none: a database keeps them (class_file.hpp), HDF5 as the array
  /// "class_names", and <path>.classes.txt beside an array of NumPy's format, a line each in the
  /// order of the labels. A line of CSV ends with the name of its label, under "class", if rows
  /// have one label each.
  std::vector<std::string> class_names = {};
  bool overwrite = false;
};

/// The text files that an array of NumPy's format at `path` has, or may have, beside it.
std::vector<std::string> files_beside_npy(const std::string& path);

/// Error when `path` exists and `overwrite` is off, when its folder does not exist, or when it
/// cannot be written.
std::unique_ptr<FeatureWriter> make_feature_writer(const FeatureFile& file);

}  // namespace crema
