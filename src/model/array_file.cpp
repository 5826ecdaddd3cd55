#include "model/array_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "crema/error.hpp"
#include "model/binary_format.hpp"
#include "model/blob_message.hpp"
#include "model/file_kind.hpp"
#include "model/snapshot_file.hpp"

namespace crema {
namespace {

template <class Blobs>
void add_arrays(const std::string& owner, const std::string& type, const Blobs& blobs,
                std::vector<FileArray>& arrays) {
  for (int i = 0; i < blobs.size(); ++i) arrays.push_back({owner, type, i, &blobs[i]});
}

}  // namespace

void list_weights(ArrayFile& file) {
  const NetParameter& net = file.weights;
  for (const LayerParameter& layer : net.layer()) {
    add_arrays(layer.name(), layer.type(), layer.blobs(), file.arrays);
  }
  bool is_v0 = false;
  for (const V1LayerParameter& layer : net.layers()) {
    if (layer.has_layer()) {
      is_v0 = true;
      add_arrays(layer.layer().name(), layer.layer().type(), layer.layer().blobs(), file.arrays);
      // A V0 layer that was copied out of its net has the arrays beside it.
      if (layer.layer().blobs_size() == 0) {
        add_arrays(layer.layer().name(), layer.layer().type(), layer.blobs(), file.arrays);
      }
    } else {
      add_arrays(layer.name(), V1LayerParameter::LayerType_Name(layer.type()), layer.blobs(),
                 file.arrays);
    }
  }
  file.format = net.layers_size() == 0 ? "binary V2" : is_v0 ? "binary V0" : "binary V1";
}

namespace {

void read_hdf5(const std::string& path, ArrayFile& read) {
  if (is_hdf5_state(path)) {
    read.kind = ArrayFile::Kind::state;
    read_solver_state(path, read.state);
    add_arrays("history", "", read.state.history(), read.arrays);
  } else {
    read.kind = ArrayFile::Kind::weights;
    read_weights(path, read.weights);
    list_weights(read);
  }
  read.format = "HDF5";
}

template <class Values>
bool same_bits(const Values& a, const Values& b) {
  // memcmp takes no null pointers, which empty fields have.
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(*a.data())) == 0);
}

/// Error unless the array holds as many values as its shape has.
void check_count(const ArrayFile& file, const FileArray& array) {
  try {
    check_blob_count(*array.blob);
  } catch (Error& error) {
    throw Error("array ", array.index, " of '", array.owner, "' in '", file.path,
                "': ", error.what());
  }
}

/// All values of an array.
std::vector<double> values_of(const BlobProto& blob) {
  std::vector<double> values(static_cast<size_t>(blob_count(blob)));
  copy_values(blob, values.data());
  return values;
}

}  // namespace

std::string ArrayFile::describe() const {
  switch (kind) {
    case Kind::weights:
      return "weights file";
    case Kind::state:
      return "solver's state";
    case Kind::array:
      break;
  }
  return "array";
}

void read_array_file(const std::string& path, ArrayFile& read) {
  require_file(path, "file of arrays", ".caffemodel");
  read.path = path;
  if (is_hdf5_file(path)) return read_hdf5(path, read);
  const google::protobuf::Descriptor* message = guess_message(path);
  if (message == SolverState::descriptor()) {
    read.kind = ArrayFile::Kind::state;
    read.format = "binary";
    read_binary_proto(path, read.state);
    add_arrays("history", "", read.state.history(), read.arrays);
  } else if (message == BlobProto::descriptor()) {
    read.kind = ArrayFile::Kind::array;
    read.format = "binary";
    read_binary_proto(path, read.array);
    read.arrays.push_back({"", "", 0, &read.array});
  } else {
    read.kind = ArrayFile::Kind::weights;
    read_binary_proto(path, read.weights);
    list_weights(read);
  }
}

ArrayStatistics statistics_of(const BlobProto& blob) {
  ArrayStatistics all;
  const std::vector<double> values = values_of(blob);
  all.count = static_cast<int64_t>(values.size());
  double sum = 0;
  int64_t finite = 0;
  for (const double value : values) {
    if (std::isnan(value)) {
      ++all.nans;
    } else if (std::isinf(value)) {
      ++all.infinities;
    } else {
      all.least = finite == 0 ? value : std::min(all.least, value);
      all.greatest = finite == 0 ? value : std::max(all.greatest, value);
      all.zeros += value == 0;
      sum += value;
      ++finite;
    }
  }
  if (finite == 0) return all;
  all.mean = sum / static_cast<double>(finite);
  double squares = 0;
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - all.mean) * (value - all.mean);
  }
  all.deviation = std::sqrt(squares / static_cast<double>(finite));
  return all;
}

int64_t value_bytes(const BlobProto& blob) {
  return static_cast<int64_t>(blob.data_size()) * 4 +
         static_cast<int64_t>(blob.double_data_size()) * 8 +
         static_cast<int64_t>(blob.raw_data().size());
}

ArrayDifference difference_of(const BlobProto& a, const BlobProto& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ArrayDifference all;
  const std::vector<double> left = values_of(a), right = values_of(b);
  double squares = 0;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const double x = left[i], y = right[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++all.differing;
    const bool finite = std::isfinite(x) && std::isfinite(y);
    const double distance = finite ? std::abs(x - y) : kInfinity;
    const double size = std::max(std::abs(x), std::abs(y));
    all.absolute = std::max(all.absolute, distance);
    all.relative = std::max(all.relative, finite ? distance / size : kInfinity);
    all.scaled = std::max(all.scaled, finite ? distance / std::max(1.0, size) : kInfinity);
    squares += distance * distance;
  }
  if (all.differing != 0) all.rms = std::sqrt(squares / static_cast<double>(left.size()));
  return all;
}

std::vector<ArrayPair> compare_arrays(const ArrayFile& a, const ArrayFile& b) {
  if (a.kind != b.kind)
    throw Error("'", a.path, "' is a ", a.describe(), " and '", b.path, "' a ", b.describe(),
                "; give two files of one kind");
  for (const FileArray& array : a.arrays) check_count(a, array);
  for (const FileArray& array : b.arrays) check_count(b, array);
  // Layers of one name follow each other: the number of an owner's arrays of one index.
  using Key = std::pair<std::string, int>;
  std::map<Key, std::vector<const FileArray*>> others;
  for (const FileArray& array : b.arrays) others[{array.owner, array.index}].push_back(&array);
  std::map<Key, size_t> taken;
  std::vector<ArrayPair> pairs;
  for (const FileArray& array : a.arrays) {
    const Key key{array.owner, array.index};
    const auto found = others.find(key);
    const size_t nth = taken[key]++;
    ArrayPair pair{.a = &array};
    if (found != others.end() && nth < found->second.size()) {
      pair.b = found->second[nth];
      // Old files write (O, K) as (1, 1, O, K).
      const auto shape = [](const BlobProto& blob) {
        std::vector<int64_t> dims = blob_shape(blob).dims();
        dims.erase(dims.begin(), std::ranges::find_if(dims, [](int64_t dim) { return dim != 1; }));
        return dims;
      };
      pair.same_shape = shape(*array.blob) == shape(*pair.b->blob) &&
                        blob_count(*array.blob) == blob_count(*pair.b->blob);
      if (pair.same_shape) {
        pair.same_bits = same_bits(array.blob->data(), pair.b->blob->data()) &&
                         same_bits(array.blob->double_data(), pair.b->blob->double_data()) &&
                         array.blob->raw_data() == pair.b->blob->raw_data() &&
                         array.blob->raw_data_type() == pair.b->blob->raw_data_type();
        pair.difference = difference_of(*array.blob, *pair.b->blob);
      }
    }
    pairs.push_back(pair);
  }
  for (const FileArray& array : b.arrays) {
    const bool is_paired = std::ranges::find(pairs, &array, &ArrayPair::b) != pairs.end();
    if (!is_paired) pairs.push_back({.b = &array});
  }
  return pairs;
}

}  // namespace crema
