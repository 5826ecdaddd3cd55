#include "model/blob_message.hpp"

#include <cstring>
#include <span>
#include <vector>

#include "core/convert.hpp"
#include "core/dispatch.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

void save(const Tensor& from, google::protobuf::RepeatedField<float>& single,
          google::protobuf::RepeatedField<double>& full) {
  if (from.dtype() == DType::f64) {
    const std::span<const double> values = from.values<double>();
    full.Assign(values.begin(), values.end());
  } else {
    const std::span<const float> values = from.values<float>();
    single.Assign(values.begin(), values.end());
  }
}

/// Bytes of one value of raw_data. Error for a type that weights do not have.
size_t raw_width(const BlobProto& blob) {
  switch (blob.raw_data_type()) {
    case ValueType::DOUBLE:
      return 8;
    case ValueType::FLOAT:
      return 4;
    case ValueType::FLOAT16:
      return 2;
    default:
      throw Error("raw_data is of raw_data_type ", ValueType::Type_Name(blob.raw_data_type()),
                  "; expected DOUBLE, FLOAT or FLOAT16");
  }
}

template <class T>
T value_at(const std::string& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::vector<double> raw_values(const BlobProto& blob) {
  const std::string& bytes = blob.raw_data();
  const size_t width = raw_width(blob);
  if (bytes.size() % width != 0)
    throw Error("raw_data has ", bytes.size(), " bytes, and a value of ",
                ValueType::Type_Name(blob.raw_data_type()), " has ", width,
                "; the file is damaged");
  std::vector<double> values(bytes.size() / width);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = width == 8   ? value_at<double>(bytes, i)
                : width == 4 ? static_cast<double>(value_at<float>(bytes, i))
                             : static_cast<double>(float16_value(value_at<uint16_t>(bytes, i)));
  }
  return values;
}

Shape blob_shape(const BlobProto& blob) {
  if (blob.has_num() || blob.has_channels() || blob.has_height() || blob.has_width()) {
    return Shape{blob.num(), blob.channels(), blob.height(), blob.width()};
  }
  return Shape(std::vector<int64_t>(blob.shape().dim().begin(), blob.shape().dim().end()));
}

int64_t blob_count(const BlobProto& blob) {
  if (is_raw(blob)) return static_cast<int64_t>(blob.raw_data().size() / raw_width(blob));
  return blob.double_data_size() > 0 ? blob.double_data_size() : blob.data_size();
}

void check_blob_count(const BlobProto& blob) {
  const Shape shape = blob_shape(blob);
  const int64_t count = blob_count(blob);
  const bool is_empty = count == 0 && shape.rank() == 0;
  if (!is_empty && count != shape.count())
    throw Error("holds ", count, " values, and its shape ", shape.str(), " has ", shape.count(),
                "; the file is damaged");
}

void load_values(const BlobProto& from, Tensor& to) {
  dispatch_float(to.dtype(),
                 [&](auto zero) { copy_values(from, to.changing<decltype(zero)>().data()); });
}

void save_values(const Tensor& from, BlobProto& to) {
  to.clear_shape();
  for (int64_t dim : from.shape().dims()) to.mutable_shape()->add_dim(dim);
  save(from, *to.mutable_data(), *to.mutable_double_data());
}

void save_diff(const Tensor& from, BlobProto& to) {
  save(from, *to.mutable_diff(), *to.mutable_double_diff());
}

}  // namespace crema
