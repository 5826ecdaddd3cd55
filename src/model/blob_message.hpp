// Arrays to and from their published message, BlobProto.
#pragma once

#include <algorithm>
#include <vector>

#include "crema/tensor.hpp"
#include "proto/blob.pb.h"

namespace crema {

/// `shape`, or the four sizes that stood for it in old files.
Shape blob_shape(const BlobProto& blob);

/// Whether the values lie in raw_data, as a fork writes them, and in no other field.
inline bool is_raw(const BlobProto& blob) {
  return blob.has_raw_data() && blob.data_size() == 0 && blob.double_data_size() == 0;
}

/// The values of raw_data. Error unless they are of DOUBLE, FLOAT or FLOAT16, and for half a value.
std::vector<double> raw_values(const BlobProto& blob);

/// How many values the message holds, which a damaged file's shape need not agree with. Error for
/// raw_data of another type than raw_values() reads.
int64_t blob_count(const BlobProto& blob);

/// Error unless the message holds as many values as its shape has. One without values may have no
/// shape.
void check_blob_count(const BlobProto& blob);

/// Copies all blob_count() values to memory that has room for them.
template <class T>
void copy_values(const BlobProto& blob, T* to) {
  const auto convert = [](auto value) { return static_cast<T>(value); };
  if (is_raw(blob)) {
    std::ranges::transform(raw_values(blob), to, convert);
  } else if (blob.double_data_size() > 0) {
    std::transform(blob.double_data().begin(), blob.double_data().end(), to, convert);
  } else {
    std::transform(blob.data().begin(), blob.data().end(), to, convert);
  }
}

/// Copies the values into a contiguous tensor of f32 or f64 with blob_count() elements.
void load_values(const BlobProto& from, Tensor& to);

/// Gives the message the shape and the values of a contiguous tensor of f32 or f64; f64 in the
/// fields for doubles.
void save_values(const Tensor& from, BlobProto& to);
/// The same for the message's gradient; its shape is that of the values.
void save_diff(const Tensor& from, BlobProto& to);

}  // namespace crema
