#include "crema/tensor.hpp"

#include <algorithm>
#include <cstring>

#include "core/checked.hpp"
#include "core/convert.hpp"
#include "core/memory.hpp"

namespace crema {
namespace {

// Tensors of rank below 3 are contiguous; sizes in bytes have to fit as well as those in elements.
void check_layout(const Shape& shape, DType dtype, Format format) {
  checked_multiply(storage_count(shape, format), static_cast<int64_t>(size_of(dtype)),
                   "bytes of a tensor");
}

}  // namespace

Tensor::Tensor(Shape shape, DType dtype, Format format)
    : shape_(std::move(shape)), dtype_(dtype), format_(format) {
  check_layout(shape_, dtype_, format_);
}

void Tensor::reshape(const Shape& shape) {
  if (shape == shape_) return;
  const Format format = shape.rank() < 3 ? Format::contiguous : format_;
  check_layout(shape, dtype_, format);
  shape_ = shape;
  format_ = format;
  if (memory_ && (row_stride_ != 0 || bytes() > memory_->bytes() - offset_)) unbind();
}

void Tensor::set_layout(DType dtype, Format format) {
  check_layout(shape_, dtype, format);
  dtype_ = dtype;
  format_ = format;
  if (memory_ &&
      (row_stride_ != 0 || bytes() > memory_->bytes() - offset_ || offset_ % size_of(dtype) != 0))
    unbind();
}

void Tensor::bind(std::shared_ptr<Memory> memory, size_t offset) {
  if (memory == nullptr) throw Error("a tensor cannot be bound to no memory; use unbind");
  if (offset > memory->bytes() || bytes() > memory->bytes() - offset)
    throw Error("a tensor of ", shape_.str(), " (", bytes(), " bytes) at ", offset,
                " exceeds its memory of ", memory->bytes(), " bytes");
  if (offset % size_of(dtype_) != 0)
    throw Error("a tensor of ", to_string(dtype_), " cannot start at byte ", offset,
                "; use a multiple of ", size_of(dtype_));
  memory_ = std::move(memory);
  offset_ = offset;
  rows_ = 1;
  row_stride_ = 0;
}

void Tensor::bind_rows(std::shared_ptr<Memory> memory, size_t offset, int64_t rows, size_t stride) {
  if (memory == nullptr) throw Error("a tensor cannot be bound to no memory; use unbind");
  if (rows < 1 || storage() % rows != 0)
    throw Error("a tensor of ", shape_.str(), " (", storage(), " elements) cannot be cut into ",
                rows, " rows of one length");
  const size_t row = bytes() / static_cast<size_t>(rows), size = size_of(dtype_);
  if (stride < std::max(row, size) || offset % size != 0 || stride % size != 0)
    throw Error("rows of ", row, " bytes of ", to_string(dtype_), " cannot begin at byte ", offset,
                " and ", stride, " bytes apart; use multiples of ", size, " that hold them");
  if (offset > memory->bytes() ||
      static_cast<size_t>(rows - 1) > (memory->bytes() - offset) / stride ||
      row > memory->bytes() - offset - static_cast<size_t>(rows - 1) * stride)
    throw Error(rows, " rows of a tensor of ", shape_.str(), " at ", offset, ", ", stride,
                " bytes apart, exceed its memory of ", memory->bytes(), " bytes");
  memory_ = std::move(memory);
  offset_ = offset;
  rows_ = rows;
  row_stride_ = stride;
}

void Tensor::unbind() {
  memory_.reset();
  offset_ = 0;
  rows_ = 1;
  row_stride_ = 0;
}

Tensor Tensor::view(const Shape& shape) const {
  if (format_ != Format::contiguous)
    throw Error("a view of a ", to_string(format_), " tensor of shape ", shape_.str(), " as ",
                shape.str(), " needs contiguous memory; take contiguous() first");
  if (shape.count() != count())
    throw Error("a view of shape ", shape.str(), " has ", shape.count(), " elements, but ",
                shape_.str(), " has ", count());
  need_dense("a view");
  need_memory();
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

void Tensor::copy_from(const Tensor& source) {
  if (source.shape_ != shape_)
    throw Error("cannot copy a tensor of shape ", source.shape_.str(), " into one of shape ",
                shape_.str());
  if (count() == 0) return;
  if (source.row_stride_ != 0) return copy_from(source.dense());
  const bool same_layout = source.dtype_ == dtype_ && source.format_ == format_;
  if (same_layout && same_memory(source)) return;
  // The source first: where the two share one memory, its contents have to be fetched.
  const void* from = source.read_bytes();
  convert(shape_, source.dtype_, source.format_, from, dtype_, format_, overwrite_bytes());
}

Tensor Tensor::to(DType dtype, Format format) const {
  Tensor result(shape_, dtype, format);
  result.copy_from(*this);
  return result;
}

Tensor Tensor::contiguous() const {
  const bool is_so = format_ == Format::contiguous && row_stride_ == 0;
  return is_so ? *this : to(dtype_, Format::contiguous);
}

void Tensor::fill(double value) {
  if (count() == 0) return;
  need_dense("filling");
  need_memory();
  if (value == 0) {
    memory_->zero(offset_, bytes());
    return;
  }
  fill_elements(shape_, dtype_, format_, value, overwrite_bytes());
}

double Tensor::at(int64_t index) const {
  if (index < 0 || index >= count()) {
    throw Error("element ", index, " is outside a tensor of shape ", shape_.str(), " with ",
                count(), " elements");
  }
  const ElementOrder order(shape_, format_);
  int64_t place = ElementOrder(shape_, Format::contiguous).index_in(order, index);
  if (row_stride_ != 0) {
    const int64_t row = storage() / rows_;
    place = place / row * static_cast<int64_t>(row_stride_ / size_of(dtype_)) + place % row;
  }
  return element_as_double(dtype_, read_rows(), place);
}

Tensor Tensor::dense() const {
  if (row_stride_ == 0) return *this;
  Tensor result(shape_, dtype_, format_);
  const auto* from = static_cast<const std::byte*>(read_rows());
  auto* to = static_cast<std::byte*>(result.overwrite_bytes());
  const size_t row = bytes() / static_cast<size_t>(rows_);
  for (int64_t r = 0; r < rows_; ++r, from += row_stride_, to += row) std::memcpy(to, from, row);
  return result;
}

void Tensor::seal() {
  if (memory_) memory_->seal();
}

void* Tensor::bytes_of(Access access, DeviceBackend* backend) const {
  need_dense("access");
  return first_byte(access, backend);
}

void* Tensor::first_byte(Access access, DeviceBackend* backend) const {
  need_memory();
  // A tensor that covers a part of its memory must not drop the newer copy of the rest.
  const bool is_alone = offset_ == 0 && memory_->is_staged();
  const bool is_part = !is_alone && (offset_ != 0 || bytes() != memory_->bytes());
  if (access == Access::overwrite && is_part) access = Access::change;
  return static_cast<char*>(memory_->access(access, backend)) + offset_;
}

void* Tensor::bytes_as(DType as, Access access, DeviceBackend* backend) const {
  if (as == dtype_) return bytes_of(access, backend);
  throw Error("a tensor of ", to_string(dtype_), " and shape ", shape_.str(), " was accessed as ",
              to_string(as), "; convert it with to() first");
}

void* Tensor::exposed_bytes_as(DType as, Access access, DeviceBackend* backend) {
  void* const pointer = bytes_as(as, access, backend);
  if (backend == nullptr) memory_->expose();
  return pointer;
}

ChangeScope::ChangeScope(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {
  memory_->begin_writing();
}

ChangeScope::~ChangeScope() { memory_->end_writing(); }

void Tensor::need_dense(std::string_view what) const {
  if (row_stride_ == 0) return;
  throw Error(what, " of a tensor of ", shape_.str(),
              ", whose rows lie apart in those of a wider one; make a copy with to() first");
}

void Tensor::need_memory() const {
  if (memory_) return;
  memory_ = std::make_shared<Memory>(bytes());
  offset_ = 0;
}

}  // namespace crema
