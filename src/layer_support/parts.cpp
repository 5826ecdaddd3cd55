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

/// Whether the parts are pieces of the whole, one behind the other.
bool lie_in(const Tensor& whole, Blobs parts, Tensor Blob::*tensor) {
  size_t offset = whole.offset();
  for (const Blob* part : parts) {
    const Tensor& piece = part->*tensor;
    if (!whole.has_memory() || piece.memory() != whole.memory() || piece.offset() != offset) {
      return false;
    }
    offset += piece.bytes();
  }
  return true;
}

/// The rows of the parts where they are wanted; `at` gives the memory of one.
template <class At>
std::vector<PartRows> rows_of_parts(const Tensor& whole, Blobs parts, Tensor Blob::*tensor,
                                    int axis, const std::vector<bool>& wanted, const At& at) {
  std::vector<PartRows> rows;
  int64_t offset = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const int64_t bytes = rows_of(parts[k]->*tensor, whole, axis).bytes;
    if (wanted[k]) rows.push_back({at(parts[k]->*tensor), bytes, offset});
    offset += bytes;
  }
  return rows;
}

/// Copies the parts to the whole. Does nothing if they are pieces of it.
void join(const ComputeDevice& device, Blobs parts, Tensor Blob::*tensor, Tensor& whole, int axis) {
  if (lie_in(whole, parts, tensor)) return;
  std::byte* to = device.overwrite_bytes(whole);
  if (!device.on_host()) {
    // A pass for parts to read and to write; it does not write these.
    const auto at = [&](const Tensor& part) {
      return const_cast<std::byte*>(device.read_bytes(part));
    };
    const RowCopy row = rows_of(whole, whole, axis);
    return copy_parts(
        device,
        rows_of_parts(whole, parts, tensor, axis, std::vector<bool>(parts.size(), true), at),
        row.rows, row.bytes, to, true);
  }
  for (const Blob* part : parts) {
    const RowCopy rows = rows_of(part->*tensor, whole, axis);
    copy_rows(device, rows, device.read_bytes(part->*tensor), to);
    to += rows.bytes;
  }
}

/// Copies the whole to those parts that are wanted. Does nothing if they are pieces of it.
void cut(const ComputeDevice& device, const Tensor& whole, Blobs parts, Tensor Blob::*tensor,
         int axis, const std::vector<bool>& wanted) {
  if (lie_in(whole, parts, tensor)) return;
  const std::byte* from = device.read_bytes(whole);
  if (!device.on_host()) {
    const auto at = [&](Tensor& part) { return device.overwrite_bytes(part); };
    const RowCopy row = rows_of(whole, whole, axis);
    return copy_parts(device, rows_of_parts(whole, parts, tensor, axis, wanted, at), row.rows,
                      row.bytes, const_cast<std::byte*>(from), false);
  }
  for (size_t k = 0; k < parts.size(); ++k) {
    RowCopy rows = rows_of(parts[k]->*tensor, whole, axis);
    std::swap(rows.from_stride, rows.to_stride);
    if (wanted[k]) copy_rows(device, rows, from, device.overwrite_bytes(parts[k]->*tensor));
    from += rows.bytes;
  }
}

}  // namespace

void PartsLayer::prepare_reference(Blobs bottom, Blobs top) {
  const Tensor& all = whole(bottom, top).data;
  if (parts(bottom, top).size() == 1) {
    in_place_ = InPlace::alias;
  } else if (rows_around(all.shape(), all.format(), axis_of(all.shape())) == 1) {
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
