#include "model/hdf5/hdf5_call.hpp"

#include "model/hdf5_file.hpp"

namespace crema {

bool has_hdf5() { return true; }

std::mutex& Hdf5Call::mutex() {
  // The library would close all files when the program ends, before a static net can finish its
  // own, and would print that it cannot where the disk is full. Each file here is closed by its
  // owner.
  [[maybe_unused]] static const herr_t keeps_open = H5dont_atexit();
  static std::mutex mutex;
  return mutex;
}

std::string Hdf5Call::reason() const {
  std::string text;
  const auto take = [](unsigned depth, const H5E_error2_t* error, void* out) -> herr_t {
    if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &text);
  return text.empty() ? "unknown error of HDF5" : text;
}

}  // namespace crema
