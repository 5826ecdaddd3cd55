#include "data/images/opencv/codecs.hpp"

#include <dlfcn.h>

#include <opencv2/imgcodecs.hpp>
#include <string_view>

#include "crema/error.hpp"

namespace crema {
namespace {

using Decode = cv::Mat (*)(cv::InputArray, int);
using Encode = bool (*)(const cv::String&, cv::InputArray, std::vector<uchar>&,
                        const std::vector<int>&);
// The header's own declarations; nothing refers to the functions, so that nothing links them.
static_assert(requires { static_cast<Decode>(cv::imdecode); });
static_assert(requires { static_cast<Encode>(cv::imencode); });
// As compilers of the Itanium ABI name them, with the strings of libstdc++.
constexpr const char* kDecode = "_ZN2cv8imdecodeERKNS_11_InputArrayEi";
constexpr const char* kEncode =
    "_ZN2cv8imencodeERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_11_InputArrayE"
    "RSt6vectorIhSaIhEERKSB_IiSaIiEE";

/// The codecs of the version of OpenCV's core that is loaded: they lie beside it, with its name but
/// for "core".
std::string codecs_path() {
  constexpr std::string_view kCore = "opencv_core";
  Dl_info info{};
  const auto place = reinterpret_cast<void*>(static_cast<int (*)()>(cv::getNumThreads));
  const bool found = ::dladdr(place, &info) != 0 && info.dli_fname != nullptr;
  std::string path = found ? info.dli_fname : "";
  const size_t at = path.rfind(kCore);
  if (at == std::string::npos)
    throw Error("the image files' library of OpenCV is not found beside '", path,
                "'; install OpenCV's shared libraries (libopencv-imgcodecs)");
  return path.replace(at, kCore.size(), "opencv_imgcodecs");
}

struct Codecs {
  Decode decode = nullptr;
  Encode encode = nullptr;

  Codecs() {
    // A wheel has them linked.
    if (find(RTLD_DEFAULT)) return;
    const std::string path = codecs_path();
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Error("OpenCV's library for image files cannot be loaded: ", ::dlerror(),
                  "; install libopencv-imgcodecs");
    if (!find(library))
      throw Error("'", path,
                  "' is not the OpenCV that Crema was built with; install that version, or build "
                  "Crema anew");
  }

 private:
  bool find(void* library) {
    decode = reinterpret_cast<Decode>(::dlsym(library, kDecode));
    encode = reinterpret_cast<Encode>(::dlsym(library, kEncode));
    return decode != nullptr && encode != nullptr;
  }
};

const Codecs& codecs() {
  static const Codecs loaded;
  return loaded;
}

}  // namespace

cv::Mat decode_by_opencv(const cv::Mat& file, int flags) { return codecs().decode(file, flags); }

bool encode_by_opencv(const std::string& extension, const cv::Mat& image,
                      std::vector<uint8_t>& file, const std::vector<int>& settings) {
  return codecs().encode(extension, image, file, settings);
}

}  // namespace crema
