#include "layer_support/parts.hpp"

#include <algorithm>
#include <utility>

#include "core/move.hpp"
#include "layer_support/part_copies.hpp"

namespace crema {
namespace {

/// The rows of a part. They lie one behind the other in the rows of the whole.
RowCopy rows_of(const Tensor& part, const Tensor& whole, int axis) {
  const int64_t rows = rows_around(whole.shape(), whole.format(), axis);
  if (rows == 0) return {};
  const auto bytes_of_row = [&](const Tensor& tensor) {
    return static_cast<int64_t>(tensor.bytes()) / rows;
  };
  const int64_t bytes = bytes_of_row(part);
  return {.rows = rows, .bytes = bytes, .from_stride = bytes, .to_stride = bytes_of_row(whole)};
}

/// Whether the part lies in the rows of the whole, at byte `offset` of each.
bool lies_in(const Tensor& part, const Tensor& whole, const RowCopy& of_whole, int64_t offset) {
  const auto stride = static_cast<size_t>(of_whole.rows == 1 ? 0 : of_whole.bytes);
  return whole.has_memory() && part.memory() == whole.memory() &&
         part.offset() == whole.offset() + static_cast<size_t>(offset) &&
         part.row_stride() == stride;
}

/// The parts that lie elsewhere, where they are wanted.
struct Elsewhere {
  std::vector<size_t> parts;
  std::vector<int64_t> bytes, offsets;  // in a row of the whole
  bool all = true;                      // no part lies in the whole

  Elsewhere(const Tensor& whole, const RowCopy& of_whole, Blobs all_parts, Tensor Blob::*tensor,
            int axis, const std::vector<bool>& wanted) {
    int64_t offset = 0;
    for (size_t k = 0; k < all_parts.size(); ++k) {
      const Tensor& part = all_parts[k]->*tensor;
      const int64_t own = rows_of(part, whole, axis).bytes, begin = offset;
      offset += own;
      const bool is_there = lies_in(part, whole, of_whole, begin);
      all = all && !is_there;
      if (is_there || !wanted[k]) continue;
      parts.push_back(k);
      bytes.push_back(own);
      offsets.push_back(begin);
    }
  }
};

/// Copies the parts to the whole, but for those that lie there.
void join(const ComputeDevice& device, Blobs parts, Tensor Blob::*tensor, Tensor& whole, int axis) {
  const RowCopy row = rows_of(whole, whole, axis);
  const Elsewhere some(whole, row, parts, tensor, axis, std::vector<bool>(parts.size(), true));
  if (some.parts.empty()) return;
  // What lies there stays.
  if (!some.all) device.read_bytes(whole);
  std::byte* const to = device.overwrite_bytes(whole);
  std::vector<PartRows> rows;
  for (size_t i = 0; i < some.parts.size(); ++i) {
    const Tensor& part = parts[some.parts[i]]->*tensor;
    const std::byte* const from = device.read_bytes(part);
    if (device.on_host()) {
      copy_rows(device, rows_of(part, whole, axis), from, to + some.offsets[i]);
    } else {
      // A pass for parts to read and to write; it does not write these.
      rows.push_back({const_cast<std::byte*>(from), some.bytes[i], some.offsets[i]});
    }
  }
  if (!device.on_host()) copy_parts(device, rows, row.rows, row.bytes, to, true);
}

/// Copies the whole to those parts that are wanted, but for those that lie there.
void cut(const ComputeDevice& device, const Tensor& whole, Blobs parts, Tensor Blob::*tensor,
         int axis, const std::vector<bool>& wanted) {
  const RowCopy row = rows_of(whole, whole, axis);
  const Elsewhere some(whole, row, parts, tensor, axis, wanted);
  if (some.parts.empty()) return;
  const std::byte* const from = device.read_bytes(whole);
  std::vector<PartRows> rows;
  for (size_t i = 0; i < some.parts.size(); ++i) {
    Tensor& part = parts[some.parts[i]]->*tensor;
    std::byte* const to = device.overwrite_bytes(part);
    if (device.on_host()) {
      RowCopy copy = rows_of(part, whole, axis);
      std::swap(copy.from_stride, copy.to_stride);
      copy_rows(device, copy, from + some.offsets[i], to);
    } else {
      rows.push_back({to, some.bytes[i], some.offsets[i]});
    }
  }
  if (!device.on_host())
    copy_parts(device, rows, row.rows, row.bytes, const_cast<std::byte*>(from), false);
}

}  // namespace

void PartsLayer::prepare_reference(Blobs bottom, Blobs top) {
  const Tensor& all = whole(bottom, top).data;
  rows_ = rows_around(all.shape(), all.format(), axis_of(all.shape()));
  if (parts(bottom, top).size() == 1) {
    in_place_ = InPlace::alias;
  } else if (rows_ == 1) {
    in_place_ = InPlace::parts;
  } else {
    in_place_ = InPlace::never;
  }
}

std::vector<Option> PartsLayer::reference_options(Blobs bottom, Blobs top) const {
  std::vector<Option> options = moving_options(*this, bottom, top, true);
  if (axis_of(bottom[0]->shape()) != 1) return options;
  const Blobs all = parts(bottom, top);
  std::erase_if(options, [&](const Option& option) {
    return std::any_of(all.begin(), all.end(), [&](const Blob* part) {
      return part->shape()[1] % block_of(option.bottoms[0].format) != 0;
    });
  });
  return options;
}

void PartsLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const int axis = axis_of(bottom[0]->shape());
  if (makes_ == Makes::whole) {
    join(device, bottom, &Blob::data, top[0]->data, axis);
  } else {
    cut(device, bottom[0]->data, top, &Blob::data, axis, std::vector<bool>(top.size(), true));
  }
}

void PartsLayer::run_backward(const ComputeDevice& device, Blobs top,
                              const std::vector<bool>& propagate, Blobs bottom) {
  const int axis = axis_of(bottom[0]->shape());
  if (makes_ == Makes::whole) {
    cut(device, top[0]->diff, bottom, &Blob::diff, axis, propagate);
  } else {
    join(device, top, &Blob::diff, bottom[0]->diff, axis);
  }
}

}  // namespace crema
