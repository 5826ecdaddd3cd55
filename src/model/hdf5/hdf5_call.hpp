// RAII for the C library of HDF5.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace crema {

/// Holds the library's mutex. While it lives, the library does not print its errors; afterwards it
/// prints them, or not, as the program said before.
class Hdf5Call {
 public:
  Hdf5Call() : guard_(mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Hdf5Call() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }
  Hdf5Call(const Hdf5Call&) = delete;
  Hdf5Call& operator=(const Hdf5Call&) = delete;

  /// Why the last call failed, in the library's words: what its innermost function said.
  std::string reason() const;

 private:
  static std::mutex& mutex();

  std::lock_guard<std::mutex> guard_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// An identifier of the library, closed with this object, which must die during a Hdf5Call.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Id() = default;
  Hdf5Id(hid_t id, Close closer) : id_(id), close_(closer) {}
  Hdf5Id(Hdf5Id&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Id() { close(); }

  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }
  /// False if the library could not close it, such as a file whose contents cannot be written.
  bool close() {
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return id < 0 || close_(id) >= 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

}  // namespace crema
