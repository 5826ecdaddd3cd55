// Files that hold arrays, in any published format: what they are, and what is in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/shape.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {

/// One array of a file.
struct FileArray {
  std::string owner;  // the layer; "history" of a solver's state; "" of a single array
  std::string type;   // of the layer: "Convolution", "CONVOLUTION" (V1) or "conv" (V0)
  int index = 0;      // among the arrays of its owner
  const BlobProto* blob = nullptr;
};

/// A weights file, a solver's state or a single array, such as a mean image. Owns the arrays.
struct ArrayFile {
  ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  enum class Kind : uint8_t { weights, state, array };

  std::string path;
  Kind kind = Kind::array;
  std::string format;  // "binary V2", "binary V1", "binary V0", "binary" or "HDF5"
  // The one that `kind` names is read.
  NetParameter weights;
  SolverState state;
  BlobProto array;
  /// In the order of the file. Layers without arrays are not in it.
  std::vector<FileArray> arrays;

  /// "weights file", "solver's state", "array".
  std::string describe() const;
};

/// Reads the file into `read`, which is new; its kind is told by its contents. Error if it is no
/// such file, or damaged. `arrays` points into the messages.
void read_array_file(const std::string& path, ArrayFile& read);

/// Fills `arrays` with those of `read.weights`, in their order, and says in `format` which of the
/// published formats these have.
void list_weights(ArrayFile& read);

/// Statistics of an array's values. `zeros`, `least`, `greatest`, `mean` and `deviation` are those
/// of its finite values, or 0 if it has none.
struct ArrayStatistics {
  int64_t count = 0;                 // of all values
  int64_t nans = 0, infinities = 0;  // how many of them are NaN, and infinite
  int64_t zeros = 0;
  double least = 0, greatest = 0, mean = 0;
  double deviation = 0;  // the standard deviation: of a population, not of a sample
};
ArrayStatistics statistics_of(const BlobProto& blob);

/// Bytes of the values as they are stored.
int64_t value_bytes(const BlobProto& blob);

/// How far the values of two arrays of one count are from each other. A value that is NaN in one
/// array alone, or infinite in one alone, is infinitely far.
struct ArrayDifference {
  int64_t differing = 0;  // values that are not equal
  double absolute = 0;    // greatest |a - b|
  double relative = 0;    // greatest |a - b| / max(|a|, |b|)
  double scaled = 0;      // greatest |a - b| / max(1, |a|, |b|)
  double rms = 0;         // root of the mean of (a - b)^2
};
ArrayDifference difference_of(const BlobProto& a, const BlobProto& b);

/// Arrays of two files side by side, those of the first file in its order, then those that only the
/// second has.
struct ArrayPair {
  const FileArray* a = nullptr;  // null: only in the second file
  const FileArray* b = nullptr;  // null: only in the first
  bool same_shape = false;       // both are there, and have as many values in one shape
  bool same_bits = false;        // same_shape, and the values are stored alike to the bit
  ArrayDifference difference;    // where same_shape

  const FileArray& any() const { return a != nullptr ? *a : *b; }
};
/// Arrays belong together by owner and index; layers of one name in their order. Error if the files
/// are of different kinds, or if an array does not hold as many values as its shape has.
std::vector<ArrayPair> compare_arrays(const ArrayFile& a, const ArrayFile& b);

}  // namespace crema
