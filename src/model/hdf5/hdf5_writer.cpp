#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "crema/error.hpp"
#include "model/hdf5/hdf5_call.hpp"
#include "model/hdf5_checksum.hpp"
#include "model/hdf5_file.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace {

/// An array that grows lies in chunks, of about so many bytes.
constexpr size_t kChunkBytes = size_t{1} << 18;

std::vector<hsize_t> dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

/// For files that a WholeFile has locked: the library's own lock would meet that one.
Hdf5Id without_lock() {
  Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

/// UTF-8 of any length.
Hdf5Id any_text() {
  Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

hid_t type_of(DType dtype) { return dtype == DType::f64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT; }

}  // namespace

bool restore_hdf5_mark(const std::string& path) {
  const Hdf5Call call;
  const Hdf5Id access = without_lock();
  Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.get()), H5Fclose);
  const auto check = [&](bool done) {
    if (!done) throw Error("cannot write '", path, "': ", call.reason());
  };
  check(file.is_open());
  if (H5Aexists(file.get(), kHdf5ChecksumName) <= 0) return false;
  {
    const Hdf5Id attribute(H5Aopen(file.get(), kHdf5ChecksumName, H5P_DEFAULT), H5Aclose);
    check(attribute.is_open());
    const Hdf5Id space(H5Aget_space(attribute.get()), H5Sclose);
    const std::array<uint64_t, 3> values = hdf5_checksum_values();
    check(H5Sget_simple_extent_npoints(space.get()) == static_cast<hssize_t>(values.size()) &&
          H5Awrite(attribute.get(), H5T_NATIVE_UINT64, values.data()) >= 0);
  }
  check(file.close());
  return true;
}

struct Hdf5Writer::State {
  struct Array {
    Hdf5Id id;
    Shape shape;  // of all rows
    DType dtype = DType::f32;
  };

  State(const std::string& name, bool checksum)
      : path(name), whole(name), with_checksum(checksum) {}

  std::string path;
  WholeFile whole;
  bool with_checksum;
  bool synced = false;
  Hdf5Id file;
  std::map<std::string, Array> arrays;

  [[noreturn]] void fail(const std::string& reason) const {
    // The library's reason holds the system's words for the error among others.
    for (const int error : {ENOSPC, EFBIG, EDQUOT}) {
      if (reason.find(std::strerror(error)) != std::string::npos) whole.check(error);
    }
    const bool locked = reason.find("unable to lock") != std::string::npos;
    throw Error(
        "cannot write '", path, "': ", reason,
        locked ? "; unset HDF5_USE_FILE_LOCKING in the environment: Crema locks the file" : "");
  }

  /// The attribute that seal_hdf5() looks for. It is made first, so it lies near the file's begin.
  void make_checksum(const Hdf5Call& call) const {
    const std::array<uint64_t, 3> values = hdf5_checksum_values();
    const hsize_t count = values.size();
    const Hdf5Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    const Hdf5Id attribute(H5Acreate2(file.get(), kHdf5ChecksumName, H5T_STD_U64LE, space.get(),
                                      H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
    if (!attribute.is_open() || H5Awrite(attribute.get(), H5T_NATIVE_UINT64, values.data()) < 0)
      fail(call.reason());
  }

  /// Makes an array and the groups on the way to it, and writes it.
  void write(const Hdf5Call& call, const std::string& name, const Shape& shape, hid_t type,
             const void* values) const {
    const std::vector<hsize_t> dims = dims_of(shape);
    const Hdf5Id space(
        dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(shape.rank(), dims.data(), nullptr),
        H5Sclose);
    const Hdf5Id links = links_with_groups(), settings(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    // Two runs with the same weights write the same bytes.
    H5Pset_obj_track_times(settings.get(), false);
    Hdf5Id array(H5Dcreate2(file.get(), name.c_str(), type, space.get(), links.get(),
                            settings.get(), H5P_DEFAULT),
                 H5Dclose);
    if (!array.is_open()) fail(text("array '", name, "': ", call.reason()));
    if (shape.count() != 0 &&
        H5Dwrite(array.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
      fail(call.reason());
    if (!array.close()) fail(call.reason());
  }

  static Hdf5Id links_with_groups() {
    Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links.get(), 1);
    return links;
  }

  Array make(const Hdf5Call& call, const std::string& name, const Tensor& rows) const {
    Array array{.shape = rows.shape(), .dtype = rows.dtype()};
    array.shape.set(0, 0);
    const std::vector<hsize_t> dims = dims_of(array.shape);
    std::vector<hsize_t> most = dims, chunk = dims;
    most[0] = H5S_UNLIMITED;
    const size_t row_bytes = static_cast<size_t>(rows.shape().count(1)) * size_of(rows.dtype());
    chunk[0] = std::max<size_t>(1, kChunkBytes / std::max<size_t>(1, row_bytes));
    for (hsize_t& side : chunk) side = std::max<hsize_t>(1, side);
    const Hdf5Id space(H5Screate_simple(rows.shape().rank(), dims.data(), most.data()), H5Sclose);
    const Hdf5Id settings(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const Hdf5Id links = links_with_groups();
    if (!space.is_open() || !settings.is_open() ||
        H5Pset_chunk(settings.get(), rows.shape().rank(), chunk.data()) < 0)
      fail(call.reason());
    array.id = Hdf5Id(H5Dcreate2(file.get(), name.c_str(), type_of(array.dtype), space.get(),
                                 links.get(), settings.get(), H5P_DEFAULT),
                      H5Dclose);
    if (!array.id.is_open()) fail(call.reason());
    return array;
  }

  void append(const Hdf5Call& call, Array& array, const Tensor& rows) const {
    std::vector<hsize_t> first(static_cast<size_t>(rows.shape().rank()), 0);
    first[0] = static_cast<hsize_t>(array.shape[0]);
    Shape grown = array.shape;
    grown.set(0, array.shape[0] + rows.shape()[0]);
    const std::vector<hsize_t> all = dims_of(grown), added = dims_of(rows.shape());
    if (H5Dset_extent(array.id.get(), all.data()) < 0) fail(call.reason());
    const Hdf5Id target(H5Dget_space(array.id.get()), H5Sclose);
    const Hdf5Id source(H5Screate_simple(rows.shape().rank(), added.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(target.get(), H5S_SELECT_SET, first.data(), nullptr, added.data(),
                            nullptr) < 0 ||
        H5Dwrite(array.id.get(), type_of(array.dtype), source.get(), target.get(), H5P_DEFAULT,
                 rows.read_bytes()) < 0)
      fail(call.reason());
    array.shape = grown;
  }
};

Hdf5Writer::Hdf5Writer(const std::string& path, bool with_checksum)
    : state_(std::make_unique<State>(path, with_checksum)) {
  const Hdf5Call call;
  const Hdf5Id access = without_lock();  // closed behind reason(), which it would clear
  state_->file =
      Hdf5Id(H5Fcreate(state_->whole.beside().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
             H5Fclose);
  if (!state_->file.is_open()) state_->fail(call.reason());
  if (!with_checksum) return;
  try {
    state_->make_checksum(call);
  } catch (...) {  // there is no destructor yet
    state_->file.close();
    throw;
  }
}

Hdf5Writer::~Hdf5Writer() {
  const Hdf5Call call;
  state_->arrays.clear();
  state_->file.close();
}

void Hdf5Writer::append(const std::string& name, const Tensor& rows) {
  const Hdf5Call call;
  auto found = state_->arrays.find(name);
  if (found == state_->arrays.end())
    found = state_->arrays.emplace(name, state_->make(call, name, rows)).first;
  State::Array& array = found->second;
  Shape expected = array.shape;
  expected.set(0, rows.shape()[0]);
  if (rows.shape() != expected || rows.dtype() != array.dtype)
    throw Error("cannot add ", to_string(rows.dtype()), " rows of ", rows.shape().str(),
                " to array '", name, "' of '", state_->path, "', which has ",
                to_string(array.dtype), " rows as in ", expected.str(),
                "; write batches of other shapes to other files");
  if (rows.shape()[0] != 0) state_->append(call, array, rows);
}

void Hdf5Writer::put_texts(const std::string& name, const std::vector<std::string>& texts) {
  const Hdf5Call call;
  std::vector<const char*> pointers;
  for (const auto& text : texts) pointers.push_back(text.c_str());
  const hsize_t count = texts.size();
  const Hdf5Id type = any_text();
  const Hdf5Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const Hdf5Id links = State::links_with_groups();
  Hdf5Id array(H5Dcreate2(state_->file.get(), name.c_str(), type.get(), space.get(), links.get(),
                          H5P_DEFAULT, H5P_DEFAULT),
               H5Dclose);
  if (!array.is_open() ||
      H5Dwrite(array.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0 ||
      !array.close())
    state_->fail(text("array '", name, "': ", call.reason()));
}

void Hdf5Writer::put(const std::string& name, const Tensor& values) {
  const void* const bytes = values.read_bytes();
  const Hdf5Call call;
  state_->write(call, name, values.shape(), type_of(values.dtype()), bytes);
}

void Hdf5Writer::put(const std::string& name, int32_t value) {
  const Hdf5Call call;
  state_->write(call, name, Shape{1}, H5T_NATIVE_INT32, &value);
}

void Hdf5Writer::put_text(const std::string& name, const std::string& text) {
  const Hdf5Call call;
  const Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), text.size() + 1);
  state_->write(call, name, Shape{}, type.get(), text.c_str());
}

void Hdf5Writer::put_attribute(const std::string& name, const std::string& content) {
  const Hdf5Call call;
  // An attribute itself has no room for more than 64 KiB; a text of variable length lies elsewhere.
  const Hdf5Id type = any_text(), space(H5Screate(H5S_SCALAR), H5Sclose);
  const char* const pointer = content.c_str();
  Hdf5Id attribute(H5Acreate2(state_->file.get(), name.c_str(), type.get(), space.get(),
                              H5P_DEFAULT, H5P_DEFAULT),
                   H5Aclose);
  if (!attribute.is_open() || H5Awrite(attribute.get(), type.get(), &pointer) < 0 ||
      !attribute.close())
    state_->fail(text("attribute '", name, "': ", call.reason()));
}

void Hdf5Writer::put_bytes(const std::string& name, const std::string& bytes) {
  const Hdf5Call call;
  state_->write(call, name, Shape{static_cast<int64_t>(bytes.size())}, H5T_NATIVE_UINT8,
                bytes.data());
}

void Hdf5Writer::make_group(const std::string& name) {
  const Hdf5Call call;
  const Hdf5Id there(H5Gopen2(state_->file.get(), name.c_str(), H5P_DEFAULT), H5Gclose);
  if (there.is_open()) return;
  const Hdf5Id links = State::links_with_groups();
  const Hdf5Id group(
      H5Gcreate2(state_->file.get(), name.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Gclose);
  if (!group.is_open()) state_->fail(text("group '", name, "': ", call.reason()));
}

void Hdf5Writer::sync() {
  if (state_->synced) return;
  {
    const Hdf5Call call;
    // Closing an array writes its last rows.
    for (auto& [name, array] : state_->arrays) {
      if (!array.id.close()) state_->fail(call.reason());
    }
    state_->arrays.clear();
    if (H5Fflush(state_->file.get(), H5F_SCOPE_GLOBAL) < 0) state_->fail(call.reason());
    if (!state_->file.close()) state_->fail(call.reason());
  }
  if (state_->with_checksum) state_->whole.check(seal_hdf5(state_->whole.descriptor()));
  state_->whole.sync();
  state_->synced = true;
}

void Hdf5Writer::finish() {
  sync();
  state_->whole.finish();
}

}  // namespace crema
