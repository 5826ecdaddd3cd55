#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"
#include "data/hdf5/hdf5_call.hpp"
#include "data/hdf5_file.hpp"
#include "model/binary_format.hpp"

namespace crema {
namespace {

/// An array that grows lies in chunks, of about so many bytes.
constexpr size_t kChunkBytes = size_t{1} << 18;

std::vector<hsize_t> dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

hid_t type_of(DType dtype) { return dtype == DType::f64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT; }

}  // namespace

struct Hdf5Writer::State {
  struct Array {
    Hdf5Id id;
    Shape shape;  // of all rows
    DType dtype = DType::f32;
  };

  std::string path, beside;
  Hdf5Id file;
  std::map<std::string, Array> arrays;

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error("cannot write '", path, "': ", reason);
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
    const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links.get(), 1);  // for names with slashes
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

Hdf5Writer::Hdf5Writer(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->beside = unfinished_path(path);
  const Hdf5Call call;
  state_->file =
      Hdf5Id(H5Fcreate(state_->beside.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (state_->file.is_open()) return;
  const std::string reason = call.reason();
  const bool is_open = reason.find("already open") != std::string::npos;
  state_->fail(reason + (is_open ? "; another layer or net of this process writes it: give each a "
                                   "file_name of its own, or include { phase } in the layer"
                                 : ""));
}

Hdf5Writer::~Hdf5Writer() {
  const Hdf5Call call;
  state_->arrays.clear();
  if (!state_->file.is_open()) return;
  state_->file.close();
  ::unlink(state_->beside.c_str());
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
  const Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const Hdf5Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  Hdf5Id array(H5Dcreate2(state_->file.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                          H5P_DEFAULT, H5P_DEFAULT),
               H5Dclose);
  if (!array.is_open() ||
      H5Dwrite(array.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0 ||
      !array.close())
    state_->fail(concat("array '", name, "': ", call.reason()));
}

void Hdf5Writer::finish() {
  const auto fail = [&](const std::string& reason) {
    ::unlink(state_->beside.c_str());
    state_->fail(reason);
  };
  {
    const Hdf5Call call;
    // Closing an array writes its last rows.
    for (auto& [name, array] : state_->arrays) {
      if (!array.id.close()) state_->fail(call.reason());
    }
    state_->arrays.clear();
    if (H5Fflush(state_->file.get(), H5F_SCOPE_GLOBAL) < 0) state_->fail(call.reason());
    if (!state_->file.close()) fail(call.reason());
  }
  const int descriptor = ::open(state_->beside.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(std::strerror(errno));
  const int synced = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (synced != 0) fail(std::strerror(synced));
  if (::rename(state_->beside.c_str(), state_->path.c_str()) != 0) fail(std::strerror(errno));
  sync_folder(std::filesystem::path(state_->path).parent_path());
}

}  // namespace crema
