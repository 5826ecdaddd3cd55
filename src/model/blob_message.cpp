#include "model/blob_message.hpp"

#include <span>
#include <vector>

#include "core/dispatch.hpp"

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

}  // namespace

Shape blob_shape(const BlobProto& blob) {
  if (blob.has_num() || blob.has_channels() || blob.has_height() || blob.has_width()) {
    return Shape{blob.num(), blob.channels(), blob.height(), blob.width()};
  }
  return Shape(std::vector<int64_t>(blob.shape().dim().begin(), blob.shape().dim().end()));
}

int64_t blob_count(const BlobProto& blob) {
  return blob.double_data_size() > 0 ? blob.double_data_size() : blob.data_size();
}

void load_values(const BlobProto& from, Tensor& to) {
  dispatch_float(to.dtype(),
                 [&](auto zero) { copy_values(from, to.writing<decltype(zero)>().data()); });
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
