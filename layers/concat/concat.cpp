#include "layers/concat/concat.hpp"

#include <algorithm>

#include "backend/pointwise.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Elements of one bottom's row: all that lies behind the joined axis in memory.
int64_t row_of(const Shape& shape, Format format, int axis) {
  if (axis == 0) return storage_count(shape, format);
  switch (format) {
    case Format::contiguous:
      return shape.count(axis);
    case Format::channels_last:
      return axis == 1 ? shape[1] : shape.count(axis) * shape[1];
    case Format::blocked8:
    case Format::blocked16:
      return axis == 1 ? shape.count(1) : shape.count(axis) * block_of(format);
  }
  throw Error("concat knows no format ", to_string(format));
}

/// Copies `rows` rows of n elements; strides in elements. Long rows are shared out among threads
/// too.
template <class T>
void copy_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n,
               int64_t rows) {
  const int64_t parts = std::max<int64_t>(n / kPointwiseGrain, 1);
  const int64_t grain = kPointwiseGrain / std::max<int64_t>(n / parts, 1) + 1;
  parallel_for(rows * parts, grain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / parts, first = n * (i % parts) / parts;
      const int64_t last = n * (i % parts + 1) / parts;
      std::copy(from + row * from_stride + first, from + row * from_stride + last,
                to + row * to_stride + first);
    }
  });
}

}  // namespace

ConcatLayer::ConcatLayer(const LayerInit& init) : Layer(init) {
  const ConcatParameter& settings = init.param.concat_param();
  require(!settings.has_concat_dim() || !settings.has_axis(),
          "axis and concat_dim mean the same; keep axis");
  given_axis_ =
      settings.has_concat_dim() ? static_cast<int>(settings.concat_dim()) : settings.axis();
}

void ConcatLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& first = bottom[0]->shape();
  axis_ = first.canonical_axis(given_axis_);
  Shape joined = first;
  int64_t total = first[axis_];
  for (const Blob* other : bottom.subspan(1)) {
    const Shape& shape = other->shape();
    bool fits = shape.rank() == first.rank();
    for (int a = 0; fits && a < first.rank(); ++a) fits = a == axis_ || shape[a] == first[a];
    require(fits, "bottoms differ in more than axis ", axis_, ", along which they are joined: '",
            bottom[0]->name, "' is ", first.str(), ", '", other->name, "' is ", shape.str());
    total += shape[axis_];
  }
  joined.set(axis_, total);
  top[0]->reshape(joined);
}

InPlace ConcatLayer::reference_in_place() const {
  return param().bottom_size() == 1 ? InPlace::alias : InPlace::never;
}

std::vector<Option> ConcatLayer::reference_options(Blobs bottom, Blobs top) const {
  std::vector<Option> options = same_format_options(bottom, top, dtype(), true);
  // Joined channels must not have padding between them.
  std::erase_if(options, [&](const Option& option) {
    return axis_ == 1 && std::any_of(bottom.begin(), bottom.end(), [&](const Blob* blob) {
             return blob->shape()[1] % block_of(option.bottoms[0].format) != 0;
           });
  });
  return options;
}

void ConcatLayer::prepare_reference(Blobs bottom, Blobs top) {
  const Format format = top[0]->data.format();
  layout_ = {};
  for (const Blob* blob : bottom) {
    layout_.begins.push_back(layout_.top_row);
    layout_.row.push_back(row_of(blob->shape(), format, axis_));
    layout_.top_row += layout_.row.back();
  }
  layout_.rows = layout_.top_row == 0 ? 0 : top[0]->data.storage() / layout_.top_row;
}

void ConcatLayer::forward_cpu(Blobs bottom, Blobs top) {
  if (bottom.size() == 1 && top[0]->data.same_memory(bottom[0]->data)) return;
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = top[0]->data.host_overwrite<T>();
    for (size_t k = 0; k < bottom.size(); ++k) {
      copy_rows(bottom[k]->data.host<T>(), layout_.row[k], to + layout_.begins[k], layout_.top_row,
                layout_.row[k], layout_.rows);
    }
  });
}

void ConcatLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (bottom.size() == 1 && bottom[0]->diff.same_memory(top[0]->diff)) return;
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = top[0]->diff.host<T>();
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (!propagate[k]) continue;
      copy_rows(from + layout_.begins[k], layout_.top_row, bottom[k]->diff.host_overwrite<T>(),
                layout_.row[k], layout_.row[k], layout_.rows);
    }
  });
}

void register_concat(Registry& registry);

void register_concat(Registry& registry) { registry.add<ConcatLayer>("Concat"); }

}  // namespace crema
