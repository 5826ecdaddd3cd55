#include "backend/device_jpeg.hpp"

namespace crema {

std::unique_ptr<DeviceJpeg> make_device_jpeg(DeviceBackend&, std::string& why) {
  why = "the library is built without nvJPEG; configure where it is found, or set NVJPEG_ROOT";
  return nullptr;
}

}  // namespace crema
