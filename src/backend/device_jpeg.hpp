// JPEG files that a device decodes: behind data/images/jpeg_decoder.hpp, which reads the headers,
// and decodes on the host what a device does not.
//
// make_device_jpeg() is in backend/cuda/nvjpeg, in backend/cuda/no_nvjpeg where nvJPEG is absent,
// and in backend/none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/device.hpp"

namespace crema {

/// A rectangle of pixels of a file as it is stored, of its full size.
struct JpegPart {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Works on one file at a time, in a stream of its own, and waits for it; one a thread.
class DeviceJpeg {
 public:
  virtual ~DeviceJpeg() = default;
  /// Writes the part to memory of the host, (height, width, channels): gray for one channel; blue,
  /// green and red for three. The file is sequential, has Huffman codes, 8 bits a channel and one
  /// scan, and holds gray, or YCbCr, of which one channel is the luma. False if this one cannot be
  /// decoded, whatever the reason; `to` holds anything then.
  virtual bool decode(std::string_view file, int channels, const JpegPart& part, uint8_t* to) = 0;
};

/// Makes one for the thread that calls it. May be called by several at the same time.
using MakeDeviceJpeg = std::function<std::unique_ptr<DeviceJpeg>()>;

/// Null if the build or the machine has none; `why` then says why. `backend` outlives it.
std::unique_ptr<DeviceJpeg> make_device_jpeg(DeviceBackend& backend, std::string& why);

}  // namespace crema
