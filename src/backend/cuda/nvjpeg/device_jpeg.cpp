// By nvJPEG, which reads the Huffman codes on the host and makes pixels of them on the device. The
// library is loaded when it is first asked for: a program without it runs.
#include "backend/device_jpeg.hpp"

#include <nvjpeg.h>

#include <array>
#include <cstring>

#include "backend/cuda/cuda_backend.hpp"
#include "core/shared_library.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

const char* name_of(nvjpegStatus_t status) {
  switch (status) {
    case NVJPEG_STATUS_ALLOCATOR_FAILURE:
      return "memory ran out";
    case NVJPEG_STATUS_ARCH_MISMATCH:
      return "the device is none that it knows";
    case NVJPEG_STATUS_NOT_INITIALIZED:
      return "CUDA is not ready";
    default:
      return "it failed";
  }
}

/// The functions of the library that are used here.
struct Library {
  decltype(&nvjpegCreateEx) create = nullptr;
  decltype(&nvjpegDestroy) destroy = nullptr;
  decltype(&nvjpegJpegStateCreate) create_state = nullptr;
  decltype(&nvjpegJpegStateDestroy) destroy_state = nullptr;
  decltype(&nvjpegGetImageInfo) image_info = nullptr;
  decltype(&nvjpegDecode) decode = nullptr;
  std::string missing;  // why there is none; "": it is there

  Library() {
    SharedLibrary loaded(text("libnvjpeg.so.", NVJPEG_VER_MAJOR));
    loaded.take(create, "nvjpegCreateEx");
    loaded.take(destroy, "nvjpegDestroy");
    loaded.take(create_state, "nvjpegJpegStateCreate");
    loaded.take(destroy_state, "nvjpegJpegStateDestroy");
    loaded.take(image_info, "nvjpegGetImageInfo");
    loaded.take(decode, "nvjpegDecode");
    missing = loaded.missing();
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

/// Memory that grows. Free where it is not enough: what it holds need not be kept.
struct GrowingMemory {
  enum class Kind : uint8_t { device, pinned };
  explicit GrowingMemory(Kind of) : kind(of) {}
  ~GrowingMemory() { release(); }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  /// Whether it holds that many bytes now.
  bool reserve(size_t wanted) {
    if (wanted <= bytes) return true;
    release();
    const cudaError_t status =
        kind == Kind::device ? cudaMalloc(&memory, wanted) : cudaMallocHost(&memory, wanted);
    if (status != cudaSuccess) {
      memory = nullptr;
      cudaGetLastError();  // a device without memory is in order
      return false;
    }
    bytes = wanted;
    return true;
  }
  void release() {
    if (memory != nullptr) kind == Kind::device ? cudaFree(memory) : cudaFreeHost(memory);
    memory = nullptr;
    bytes = 0;
  }
  uint8_t* get() const { return static_cast<uint8_t*>(memory); }

  const Kind kind;
  void* memory = nullptr;
  size_t bytes = 0;
};

class NvJpeg : public DeviceJpeg {
 public:
  explicit NvJpeg(DeviceBackend& backend) : backend_(backend) {}
  ~NvJpeg() override {
    if (state_ != nullptr) library().destroy_state(state_);
    if (handle_ != nullptr) library().destroy(handle_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  NvJpeg(const NvJpeg&) = delete;
  NvJpeg& operator=(const NvJpeg&) = delete;

  /// Whether the library can be used; `why` says why not.
  bool begin(std::string& why) {
    if (!library().missing.empty()) {
      why = library().missing;
      return false;
    }
    cuda(backend_);  // the device of this thread from here on
    // Damage is not passed over, and chroma is interpolated, as the host does both.
    unsigned flags = NVJPEG_FLAGS_BITSTREAM_STRICT;
#ifdef NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION
    flags |= NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION;
#endif
    nvjpegStatus_t status =
        library().create(NVJPEG_BACKEND_DEFAULT, nullptr, nullptr, flags, &handle_);
    if (status == NVJPEG_STATUS_SUCCESS) status = library().create_state(handle_, &state_);
    if (status != NVJPEG_STATUS_SUCCESS) {
      why = text("nvJPEG cannot be used: ", name_of(status));
      return false;
    }
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    return true;
  }

  bool decode(std::string_view file, int channels, const JpegPart& part, uint8_t* to) override {
    cuda(backend_);
    const auto* const data = reinterpret_cast<const unsigned char*>(file.data());
    int components = 0;
    nvjpegChromaSubsampling_t sampling = NVJPEG_CSS_UNKNOWN;
    std::array<int, NVJPEG_MAX_COMPONENT> widths{}, heights{};
    if (library().image_info(handle_, data, file.size(), &components, &sampling, widths.data(),
                             heights.data()) != NVJPEG_STATUS_SUCCESS ||
        sampling == NVJPEG_CSS_UNKNOWN || part.top + part.height > heights[0] ||
        part.left + part.width > widths[0])
      return false;
    // All of it is decoded: what is behind the part takes part in the codes anyway.
    const size_t pixel = static_cast<size_t>(channels);
    const size_t pitch = static_cast<size_t>(widths[0]) * pixel;
    const size_t row = static_cast<size_t>(part.width) * pixel;
    const auto rows = static_cast<size_t>(part.height);
    if (!whole_.reserve(pitch * static_cast<size_t>(heights[0])) || !part_.reserve(row * rows))
      return false;
    nvjpegImage_t image{};
    image.channel[0] = whole_.get();
    image.pitch[0] = pitch;
    const nvjpegOutputFormat_t format = channels == 1 ? NVJPEG_OUTPUT_Y : NVJPEG_OUTPUT_BGRI;
    if (library().decode(handle_, state_, data, file.size(), format, &image, stream_) !=
        NVJPEG_STATUS_SUCCESS) {
      // What it has queued must not write into the next picture.
      cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      return false;
    }
    const uint8_t* const first = whole_.get() + static_cast<size_t>(part.top) * pitch +
                                 static_cast<size_t>(part.left) * pixel;
    cuda_check(cudaMemcpy2DAsync(part_.get(), row, first, pitch, row, rows, cudaMemcpyDeviceToHost,
                                 stream_),
               "cudaMemcpy2DAsync");
    cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    std::memcpy(to, part_.get(), row * rows);
    return true;
  }

 private:
  DeviceBackend& backend_;
  nvjpegHandle_t handle_ = nullptr;
  nvjpegJpegState_t state_ = nullptr;
  cudaStream_t stream_ = nullptr;
  GrowingMemory whole_{GrowingMemory::Kind::device}, part_{GrowingMemory::Kind::pinned};
};

}  // namespace

std::unique_ptr<DeviceJpeg> make_device_jpeg(DeviceBackend& backend, std::string& why) {
  auto made = std::make_unique<NvJpeg>(backend);
  if (!made->begin(why)) return nullptr;
  return made;
}

}  // namespace crema
