#include "support/hdf5_arrays.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#if CREMA_BUILT_WITH_HDF5
#include "model/hdf5/hdf5_call.hpp"
#endif

namespace crema::test {

#if CREMA_BUILT_WITH_HDF5
namespace {

hid_t type_of(Hdf5Kind kind) {
  switch (kind) {
    case Hdf5Kind::u8:
      return H5T_STD_U8LE;
    case Hdf5Kind::i32:
      return H5T_STD_I32BE;  // of a machine of the other byte order
    case Hdf5Kind::i64:
      return H5T_STD_I64LE;
    case Hdf5Kind::u64:
      return H5T_STD_U64LE;
    case Hdf5Kind::f32:
      return H5T_IEEE_F32LE;
    case Hdf5Kind::f64:
      return H5T_IEEE_F64LE;
    case Hdf5Kind::text:
      return H5T_C_S1;
    case Hdf5Kind::flag:
    case Hdf5Kind::bits:
      break;
  }
  return H5I_INVALID_HID;
}

void add(const std::string& path, const std::string& name, hid_t type, const Shape& shape,
         hid_t memory_type, const void* values) {
  const hid_t file = std::filesystem::exists(path)
                         ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                         : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<hsize_t> dims(shape.dims().begin(), shape.dims().end());
  const hid_t space = H5Screate_simple(shape.rank(), dims.data(), nullptr);
  const hid_t array =
      H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(array, 0) << path << " " << name;
  if (values != nullptr) {
    ASSERT_GE(H5Dwrite(array, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  }
  H5Dclose(array);
  H5Sclose(space);
  H5Fclose(file);
}

}  // namespace

void add_hdf5(const std::string& path, const std::string& name, Hdf5Kind kind, const Shape& shape,
              const std::vector<double>& values) {
  const Hdf5Call call;
  const std::vector<int8_t> bytes(values.begin(), values.end());
  if (kind == Hdf5Kind::flag) {
    const Hdf5Id type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
    for (const auto& [word, value] : {std::pair<const char*, int8_t>{"FALSE", 0}, {"TRUE", 1}})
      H5Tenum_insert(type.get(), word, &value);
    return add(path, name, type.get(), shape, type.get(), bytes.data());
  }
  if (kind == Hdf5Kind::bits)
    return add(path, name, H5T_STD_B8LE, shape, H5T_NATIVE_B8, bytes.data());
  add(path, name, type_of(kind), shape, H5T_NATIVE_DOUBLE,
      kind == Hdf5Kind::text || values.empty() ? nullptr : values.data());
}

void add_hdf5_integers(const std::string& path, const std::string& name, const Shape& shape,
                       const std::vector<uint64_t>& values) {
  const Hdf5Call call;
  add(path, name, H5T_STD_U64LE, shape, H5T_NATIVE_UINT64, values.data());
}

void add_hdf5_attribute(const std::string& path, const std::string& name, const std::string& text,
                        bool variable) {
  const Hdf5Call call;
  const Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  const Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), variable ? H5T_VARIABLE : text.size());
  const Hdf5Id space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Id attribute(
      H5Acreate2(file.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  const char* const pointer = text.c_str();
  const void* const value = variable ? static_cast<const void*>(&pointer) : pointer;
  ASSERT_GE(H5Awrite(attribute.get(), type.get(), value), 0) << path << " " << name;
}

void link_hdf5(const std::string& path, const std::string& name, const std::string& target,
               const std::string& other) {
  const Hdf5Call call;
  const Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const herr_t done = other.empty() ? H5Lcreate_hard(file.get(), target.c_str(), file.get(),
                                                     name.c_str(), links.get(), H5P_DEFAULT)
                                    : H5Lcreate_external(other.c_str(), target.c_str(), file.get(),
                                                         name.c_str(), links.get(), H5P_DEFAULT);
  ASSERT_GE(done, 0) << path << " " << name;
}
#else
void add_hdf5(const std::string&, const std::string&, Hdf5Kind, const Shape&,
              const std::vector<double>&) {}
void add_hdf5_integers(const std::string&, const std::string&, const Shape&,
                       const std::vector<uint64_t>&) {}
void add_hdf5_attribute(const std::string&, const std::string&, const std::string&, bool) {}
void link_hdf5(const std::string&, const std::string&, const std::string&, const std::string&) {}
#endif

}  // namespace crema::test
