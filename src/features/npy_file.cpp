#include "features/npy_file.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

// Room for any shape: the number of rows is known when all is written.
constexpr size_t kHeaderBytes = 256;

std::string npy_header(const Shape& shape, DType dtype) {
  using namespace std::string_literals;
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string content = text("{'descr': '", order, dtype == DType::f64 ? "f8" : "f4",
                             "', 'fortran_order': False, 'shape': (", joined(shape.dims()),
                             shape.rank() == 1 ? ",), }" : "), }");
  constexpr size_t kBefore = 10;  // the mark, the version, and the length of what follows
  content.resize(kHeaderBytes - kBefore - 1, ' ');
  content += '\n';
  const auto size = static_cast<uint16_t>(content.size());
  return "\x93NUMPY\x01\x00"s + static_cast<char>(size & 255) + static_cast<char>(size >> 8) +
         content;
}

}  // namespace

std::string NpyWriter::header() const { return npy_header(shape_, dtype_); }

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

namespace {

/// The value behind 'KEY': in the header's dictionary, up to the comma or brace that ends it.
std::string_view header_value(std::string_view header, std::string_view key) {
  const size_t at = header.find(text("'", key, "'"));
  if (at == std::string_view::npos) return {};
  const size_t colon = header.find(':', at);
  if (colon == std::string_view::npos) return {};
  std::string_view rest = header.substr(colon + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  const char open = rest.empty() ? ' ' : rest[0];
  const size_t end = open == '(' ? rest.find(')') : rest.find_first_of(",}");
  return rest.substr(0, end == std::string_view::npos ? end : end + (open == '(' ? 1 : 0));
}

/// "(2, 3)" as its numbers; none for anything else, and for sizes below 0 or too large.
std::optional<Shape> shape_in(std::string_view tuple) {
  if (tuple.size() < 2 || tuple.front() != '(' || tuple.back() != ')') return std::nullopt;
  std::vector<int64_t> dims;
  for (const std::string& part : split_list(tuple.substr(1, tuple.size() - 2))) {
    const auto dim = parse_number<int64_t>(part);
    if (!dim || *dim < 0) return std::nullopt;
    dims.push_back(*dim);
  }
  return Shape(dims);
}

template <class From, class To>
void convert_values(std::string_view bytes, To* to) {
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(value);
  }
}

struct NpyType {
  std::string_view name;  // behind the order of bytes
  size_t size;
  DType as;
  void (*read)(std::string_view bytes, void* to);
};

template <class From, class To>
void read_values(std::string_view bytes, void* to) {
  convert_values<From>(bytes, static_cast<To*>(to));
}

constexpr NpyType kNpyTypes[] = {
    {"f4", 4, DType::f32, read_values<float, float>},
    {"f8", 8, DType::f64, read_values<double, double>},
    {"f2", 2, DType::f32, read_values<float16, float>},
    {"i1", 1, DType::f32, read_values<int8_t, float>},
    {"i2", 2, DType::f32, read_values<int16_t, float>},
    {"i4", 4, DType::f32, read_values<int32_t, float>},
    {"i8", 8, DType::f64, read_values<int64_t, double>},
    {"u1", 1, DType::f32, read_values<uint8_t, float>},
    {"u2", 2, DType::f32, read_values<uint16_t, float>},
    {"u4", 4, DType::f32, read_values<uint32_t, float>},
    {"u8", 8, DType::f64, read_values<uint64_t, double>},
    {"b1", 1, DType::f32, read_values<uint8_t, float>},
};

}  // namespace

Tensor read_npy(const std::string& path, const std::string& what) {
  require_file(path, what + " array", ".npy");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("cannot open ", what, " '", path, "': ", std::strerror(errno)).about(path);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto refuse = [&](const auto&... why) {
    throw Error(what, " '", path, "' cannot be read: ", why..., "; numpy.save() writes such files")
        .about(path);
  };
  constexpr size_t kMark = 6;
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() < kMark + 6) refuse("it is no .npy file");
  const auto byte = [&](size_t i) { return size_t{static_cast<unsigned char>(bytes[i])}; };
  const size_t version = byte(kMark), wide = version > 1 ? 4 : 2, begin = kMark + 2 + wide;
  size_t length = 0;
  for (size_t i = 0; i < wide; ++i) length |= byte(kMark + 2 + i) << (8 * i);
  if (length > bytes.size() - begin) refuse("it is cut off");
  const std::string_view header = std::string_view(bytes).substr(begin, length);
  const std::string_view values = std::string_view(bytes).substr(begin + length);
  if (!header_value(header, "fortran_order").starts_with("False"))
    refuse("it is in Fortran order; save numpy.ascontiguousarray(x)");
  const std::optional<Shape> shape = shape_in(header_value(header, "shape"));
  if (!shape) refuse("its header names no shape");
  std::string_view descr = header_value(header, "descr");
  const auto* const type = std::ranges::find_if(kNpyTypes, [&](const NpyType& each) {
    return descr.size() == each.name.size() + 3 && descr.substr(2).starts_with(each.name);
  });
  const char native = std::endian::native == std::endian::little ? '<' : '>';
  if (type == std::end(kNpyTypes) || (descr[1] != native && descr[1] != '|' && descr[1] != '='))
    refuse("its elements are ", descr, ", and not floats, integers or bools of this machine");
  const auto count = static_cast<size_t>(shape->count());
  if (values.size() / type->size != count || values.size() % type->size != 0) {
    refuse("it holds ", values.size(), " bytes of values, and its shape ", shape->str(), " needs ",
           count, " times ", type->size);
  }
  Tensor tensor(*shape, type->as);
  type->read(values, tensor.overwrite_bytes());
  return tensor;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  // The writer of rows takes tensors that have an axis of rows.
  const Tensor whole = tensor.contiguous();
  WholeFile file(path);
  file.append(npy_header(whole.shape(), whole.dtype()));
  file.append({static_cast<const char*>(whole.read_bytes()), whole.bytes()});
  file.finish();
}

}  // namespace crema
