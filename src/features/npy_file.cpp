#include "features/npy_file.hpp"

#include <bit>

#include "crema/error.hpp"

namespace crema {
namespace {

// Room for any shape: the number of rows is known when all is written.
constexpr size_t kHeaderBytes = 256;

}  // namespace

std::string NpyWriter::header() const {
  using namespace std::string_literals;
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string content = text("{'descr': '", order, dtype_ == DType::f64 ? "f8" : "f4",
                             "', 'fortran_order': False, 'shape': (", joined(shape_.dims()),
                             shape_.rank() == 1 ? ",), }" : "), }");
  constexpr size_t kBefore = 10;  // the mark, the version, and the length of what follows
  content.resize(kHeaderBytes - kBefore - 1, ' ');
  content += '\n';
  const auto size = static_cast<uint16_t>(content.size());
  return "\x93NUMPY\x01\x00"s + static_cast<char>(size & 255) + static_cast<char>(size >> 8) +
         content;
}

void NpyWriter::append(const Tensor& rows) {
  Shape expected = begun_ ? shape_ : rows.shape();
  expected.set(0, rows.shape()[0]);
  if (!begun_) {
    begun_ = true;
    dtype_ = rows.dtype();
    shape_ = rows.shape();
    shape_.set(0, 0);
    file_.append(header());
  }
  if (rows.shape() != expected || rows.dtype() != dtype_)
    throw Error("cannot add rows of ", rows.shape().str(), " to '", path_,
                "', which has rows as in ", expected.str(),
                "; write features of several shapes to LMDB");
  file_.append({static_cast<const char*>(rows.read_bytes()), rows.bytes()});
  shape_.set(0, shape_[0] + rows.shape()[0]);
}

void NpyWriter::sync() {
  if (begun_) {
    file_.replace_head(header());
  } else {
    file_.append(header());
  }
  begun_ = true;
  file_.sync();
}

void NpyWriter::finish() {
  sync();
  file_.finish();
}

}  // namespace crema
