#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/dispatch.hpp"
#include "core/exact.hpp"
#include "crema/error.hpp"
#include "model/checksum.hpp"
#include "model/file_kind.hpp"
#include "model/hdf5/hdf5_call.hpp"
#include "model/hdf5_checksum.hpp"
#include "model/hdf5_file.hpp"

namespace crema {
namespace {

/// Integers that are wider than this may have no exact value in an element type.
template <class T>
constexpr size_t kExactBytes = std::numeric_limits<T>::digits / 8;

/// Integers that are read at once, before they are converted.
constexpr int64_t kBlockValues = int64_t{1} << 17;

/// What an array may have beyond the bytes that are stored of it, and how much smaller compression
/// makes it: deflate at most 1032 times.
constexpr double kUnstoredBytes = 1 << 26;
constexpr double kMostCompressed = 1100;

/// The arrays in the file's root group.
std::vector<std::string> array_names(hid_t file) {
  std::vector<std::string> names;
  const auto take = [](hid_t group, const char* name, const H5L_info_t*, void* out) -> herr_t {
    const Hdf5Id object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);
    if (object.is_open() && H5Iget_type(object.get()) == H5I_DATASET)
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take, &names);
  return names;
}

/// Whether a value is a byte of bits, which the library converts to no number.
bool is_bits(hid_t type) { return H5Tget_class(type) == H5T_BITFIELD && H5Tget_size(type) == 1; }

template <class T>
hid_t memory_type();
template <>
hid_t memory_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
hid_t memory_type<double>() {
  return H5T_NATIVE_DOUBLE;
}
template <>
hid_t memory_type<int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t memory_type<uint64_t>() {
  return H5T_NATIVE_UINT64;
}

}  // namespace

struct Hdf5Reader::State {
  std::string path;
  bool is_intact = false;  // its contents fit the checksum that it carries
  Hdf5Id file;

  struct Array {
    Hdf5Id id, type;
    Shape shape;
  };

  [[noreturn]] void fail(const Hdf5Call& call, const std::string& name) const {
    throw Error("cannot read array '", name, "' of '", path, "': ", call.reason());
  }

  Array open(const Hdf5Call& call, const std::string& name) const {
    Array array;
    array.id = Hdf5Id(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
    if (!array.id.is_open()) {
      const std::string reason = call.reason();
      const std::vector<std::string> names = array_names(file.get());
      if (std::ranges::find(names, name) != names.end())
        throw Error("cannot read array '", name, "' of '", path, "': ", reason);
      throw Error("'", path, "' has no array '", name, "'",
                  names.empty() ? "; it has none" : did_you_mean(name, names, "its arrays are"));
    }
    array.type = Hdf5Id(H5Dget_type(array.id.get()), H5Tclose);
    const Hdf5Id space(H5Dget_space(array.id.get()), H5Sclose);
    const int rank = space.is_open() ? H5Sget_simple_extent_ndims(space.get()) : -1;
    if (!array.type.is_open() || rank < 0) fail(call, name);
    // Programs write booleans as an enumeration over integers, or as fields of bits.
    if (H5Tget_class(array.type.get()) == H5T_ENUM)
      array.type = Hdf5Id(H5Tget_super(array.type.get()), H5Tclose);
    const H5T_class_t kind = H5Tget_class(array.type.get());
    if (kind != H5T_FLOAT && kind != H5T_INTEGER && !is_bits(array.type.get()))
      throw Error("array '", name, "' of '", path,
                  "' holds no numbers; write it as integers, f32 or f64");
    std::vector<hsize_t> dims(static_cast<size_t>(rank));
    if (rank > 0 && H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr) < 0)
      fail(call, name);
    array.shape = Shape(std::vector<int64_t>(dims.begin(), dims.end()));
    return array;
  }

  /// Error for a size that the file cannot hold, before memory is taken for it. Arrays in chunks
  /// may be compressed, and chunks that were not written are not there.
  void check_stored(hid_t array, const std::string& name, size_t value_bytes, int64_t count) const {
    const Hdf5Id settings(H5Dget_create_plist(array), H5Pclose);
    const bool chunked = settings.is_open() && H5Pget_layout(settings.get()) == H5D_CHUNKED;
    std::error_code failed;
    const auto stored = static_cast<double>(
        std::min<uint64_t>(H5Dget_storage_size(array), std::filesystem::file_size(path, failed)));
    const double most = kUnstoredBytes + stored * (chunked ? kMostCompressed : 1);
    if (static_cast<double>(value_bytes) * static_cast<double>(count) > most)
      throw Error("array '", name, "' of '", path, "' has ", count, " values of ", value_bytes,
                  " bytes, and ", stored, " bytes of the file are stored for it; it is damaged");
  }

  template <class T>
  void read_bits(const Hdf5Call& call, const Array& array, const std::string& name, T* out) const {
    std::vector<uint8_t> bytes(static_cast<size_t>(array.shape.count()));
    if (H5Dread(array.id.get(), H5T_NATIVE_B8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
      fail(call, name);
    std::ranges::copy(bytes, out);
  }

  template <class T>
  void read(const Hdf5Call& call, const Array& array, const std::string& name, T* out) const {
    if (H5Dread(array.id.get(), memory_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
      fail(call, name);
  }

  /// Reads integers as I and converts them to T, a block of rows at a time.
  template <class I, class T>
  void read_exactly(const Hdf5Call& call, const Array& array, const std::string& name,
                    T* out) const {
    const int64_t rows = array.shape.dim_or_1(0), row = array.shape.count() / rows;
    const int64_t most = std::clamp<int64_t>(kBlockValues / row, 1, rows);
    std::vector<I> values(static_cast<size_t>(most * row));
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first) * row;
      read_rows(call, array, name, first, count / row, values.data());
      for (int64_t i = 0; i < count; ++i) {
        const I value = values[static_cast<size_t>(i)];
        T& to = out[first * row + i] = static_cast<T>(value);
        if (!is_exactly(to, value))
          throw Error("array '", name, "' of '", path, "' holds ", value, " at index ",
                      first * row + i, ", which has no exact value in ", to_string(dtype_of<T>()),
                      ", the type of the net; write smaller integers, or an array of f32 if the "
                      "rounded value is right");
      }
    }
  }

  template <class T>
  void read_rows(const Hdf5Call& call, const Array& array, const std::string& name, int64_t first,
                 int64_t count, T* out) const {
    const size_t rank = array.shape.dims().size();
    if (rank == 0) return read(call, array, name, out);
    std::vector<hsize_t> begin(rank, 0);
    std::vector<hsize_t> size(array.shape.dims().begin(), array.shape.dims().end());
    begin[0] = static_cast<hsize_t>(first);
    size[0] = static_cast<hsize_t>(count);
    const Hdf5Id from(H5Dget_space(array.id.get()), H5Sclose);
    const Hdf5Id to(H5Screate_simple(static_cast<int>(rank), size.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, begin.data(), nullptr, size.data(),
                            nullptr) < 0 ||
        H5Dread(array.id.get(), memory_type<T>(), to.get(), from.get(), H5P_DEFAULT, out) < 0)
      fail(call, name);
  }
};

Hdf5Reader::Hdf5Reader(const std::string& path, Verify verify) : state_(std::make_unique<State>()) {
  require_file(path, "HDF5 file", ".h5");
  state_->path = path;
  // Before the library sees them: it does not survive all damage.
  const bool checks = verify == Verify::checksum;
  const Contents contents = checks ? hdf5_contents(path) : Contents::unknown;
  if (contents == Contents::changed) throw_changed(path, "they do not fit its checksum");
  state_->is_intact = contents == Contents::intact;
  const Hdf5Call call;
  state_->file = Hdf5Id(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (state_->file.is_open()) {
    if (checks && contents == Contents::unknown &&
        H5Aexists(state_->file.get(), kHdf5ChecksumName) > 0) {
      state_->file.close();  // there is no destructor yet, and the call ends before the members
      throw_changed(path, "its checksum is damaged");
    }
    return;
  }
  const std::string reason = call.reason();
  const FileKind kind = kind_of_file(path);
  if (kind != FileKind::hdf5 && kind != FileKind::binary)
    throw Error("'", path, "' is not an HDF5 file but ", describe(kind), way_out_of(kind));
  throw Error("cannot open HDF5 file '", path, "': ", reason).about(path);
}

Hdf5Reader::~Hdf5Reader() {
  const Hdf5Call call;
  state_->file.close();
}

Shape Hdf5Reader::shape(const std::string& name) const {
  const Hdf5Call call;
  return state_->open(call, name).shape;
}

DType Hdf5Reader::dtype(const std::string& name) const {
  const Hdf5Call call;
  const State::Array array = state_->open(call, name);
  const hid_t type = array.type.get();
  const bool wide = H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) >= sizeof(double);
  return wide ? DType::f64 : DType::f32;
}

std::vector<Hdf5Reader::Entry> Hdf5Reader::entries(const std::string& group) const {
  const Hdf5Call call;
  const Hdf5Id id(H5Gopen2(state_->file.get(), group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!id.is_open()) throw Error("'", state_->path, "' has no group '", group, "'");
  struct Found {
    std::vector<Entry> entries;
    std::string external;
  } found;
  const auto take = [](hid_t in, const char* name, const H5L_info_t* link, void* out) -> herr_t {
    auto& into = *static_cast<Found*>(out);
    if (link->type == H5L_TYPE_EXTERNAL) {
      into.external = name;
      return 1;
    }
    const Hdf5Id object(H5Oopen(in, name, H5P_DEFAULT), H5Oclose);
    if (!object.is_open()) return -1;
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_GROUP || type == H5I_DATASET) into.entries.push_back({name, type == H5I_GROUP});
    return 0;
  };
  const herr_t done = H5Literate(id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &found);
  if (!found.external.empty())
    throw Error("cannot read group '", group, "' of '", state_->path, "': '", found.external,
                "' is a link to another file; copy what it names into this one");
  if (done < 0)
    throw Error("cannot read group '", group, "' of '", state_->path, "': ", call.reason());
  return found.entries;
}

std::string Hdf5Reader::text(const std::string& name) const {
  const Hdf5Call call;
  const Hdf5Id array(H5Dopen2(state_->file.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!array.is_open()) throw Error("'", state_->path, "' has no text '", name, "'");
  const Hdf5Id type(H5Dget_type(array.get()), H5Tclose);
  const Hdf5Id space(H5Dget_space(array.get()), H5Sclose);
  if (!type.is_open() || H5Tget_class(type.get()) != H5T_STRING ||
      H5Sget_simple_extent_npoints(space.get()) != 1)
    throw Error("'", name, "' of '", state_->path, "' is no text");
  if (H5Tis_variable_str(type.get()) > 0) {
    char* value = nullptr;
    if (H5Dread(array.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) < 0)
      state_->fail(call, name);
    const std::string text = value != nullptr ? value : "";
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, &value);
    return text;
  }
  state_->check_stored(array.get(), name, H5Tget_size(type.get()), 1);
  std::string text(H5Tget_size(type.get()), '\0');
  if (H5Dread(array.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0)
    state_->fail(call, name);
  return text.substr(0, text.find('\0'));
}

std::string Hdf5Reader::bytes(const std::string& name) const {
  const Hdf5Call call;
  const State::Array array = state_->open(call, name);
  if (H5Tget_class(array.type.get()) != H5T_INTEGER || H5Tget_size(array.type.get()) != 1)
    throw Error("array '", name, "' of '", state_->path, "' does not hold bytes");
  state_->check_stored(array.id.get(), name, 1, array.shape.count());
  std::string bytes(static_cast<size_t>(array.shape.count()), '\0');
  if (!bytes.empty() &&
      H5Dread(array.id.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
    state_->fail(call, name);
  return bytes;
}

std::string Hdf5Reader::attribute(const std::string& name) const {
  const Hdf5Call call;
  const hid_t file = state_->file.get();
  if (!state_->is_intact || H5Aexists(file, name.c_str()) <= 0) return "";
  const auto fail = [&] {
    throw Error("cannot read attribute '", name, "' of '", state_->path, "': ", call.reason());
  };
  const Hdf5Id attribute(H5Aopen(file, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute.is_open()) fail();
  const Hdf5Id type(H5Aget_type(attribute.get()), H5Tclose);
  const Hdf5Id space(H5Aget_space(attribute.get()), H5Sclose);
  if (!type.is_open() || H5Tget_class(type.get()) != H5T_STRING ||
      H5Sget_simple_extent_npoints(space.get()) != 1)
    return "";
  if (H5Tis_variable_str(type.get()) > 0) {
    char* value = nullptr;
    if (H5Aread(attribute.get(), type.get(), &value) < 0) fail();
    std::string text = value != nullptr ? value : "";
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, &value);
    return text;
  }
  std::string text(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), text.data()) < 0) fail();
  return text.substr(0, text.find('\0'));
}

Tensor Hdf5Reader::read(const std::string& name, DType dtype) const {
  const Hdf5Call call;
  const State::Array array = state_->open(call, name);
  state_->check_stored(array.id.get(), name, H5Tget_size(array.type.get()), array.shape.count());
  Tensor values(array.shape, dtype);
  if (array.shape.count() == 0) return values;
  dispatch_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const out = values.overwrite<T>();
    const hid_t type = array.type.get();
    if (is_bits(type)) {
      state_->read_bits(call, array, name, out);
    } else if (H5Tget_class(type) == H5T_FLOAT || H5Tget_size(type) <= kExactBytes<T>) {
      state_->read(call, array, name, out);
    } else if (H5Tget_sign(type) == H5T_SGN_NONE) {
      state_->read_exactly<uint64_t>(call, array, name, out);
    } else {
      state_->read_exactly<int64_t>(call, array, name, out);
    }
  });
  return values;
}

}  // namespace crema
