// A record of a database: a Datum with raw pixels, floats or an image file, or an AnnotatedDatum.
// The first byte of the input chooses how it is decoded.
#include "data/records/datum.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "data/boxes/annotation.hpp"
#include "fuzz/target.hpp"

using namespace crema;

namespace {

constexpr int64_t kMostPixels = 65536;

/// Copies the pixels: the sanitizers check that all are there.
void look_at(const Image& image) {
  const auto count = static_cast<size_t>(image.shape().count());
  if (image.bytes != nullptr) std::vector<uint8_t>(image.bytes, image.bytes + count);
  if (image.floats != nullptr) std::vector<float>(image.floats, image.floats + count);
}

/// Boxes are finite, and their edges in order.
void look_at(const std::vector<LabeledBox>& boxes) {
  for (const LabeledBox& labeled : boxes) {
    const Box& box = labeled.box;
    if (!(box.left <= box.right && box.top <= box.bottom) || labeled.label < 0)
      fuzz::fail("a box that is none");
  }
}

/// One for each mode and size, which keep their memory from record to record as those of loaders
/// do.
DatumDecoder& decoder_for(unsigned choice) {
  static std::array<std::unique_ptr<DatumDecoder>, 8> decoders;
  std::unique_ptr<DatumDecoder>& decoder = decoders[choice % decoders.size()];
  if (!decoder) {
    constexpr std::array kModes = {ColorMode::as_stored, ColorMode::color, ColorMode::gray,
                                   ColorMode::as_stored};
    const ImageSize size = (choice & 4) != 0 ? ImageSize{5, 7} : ImageSize{};
    decoder = std::make_unique<DatumDecoder>(kModes[choice & 3], size);
  }
  return *decoder;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerInitialize(int*, char***) {
  // Small ones, for speed. OpenCV takes 2^30.
  return ::setenv("OPENCV_IO_MAX_IMAGE_PIXELS", std::to_string(kMostPixels).c_str(), 1);
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  if (count == 0) return 0;
  const unsigned choice = bytes[0];
  const Record record{"key", fuzz::text_of(bytes + 1, count - 1)};
  DatumDecoder& decoder = decoder_for(choice);
  fuzz::attempt_in_little_memory([&] {
    const Image opened = decoder.open(record);
    std::vector<double> labels;
    fuzz::attempt([&] { decoder.labels(labels); });
    if (decoder.annotated() != nullptr)
      fuzz::attempt([&] { look_at(boxes_of(*decoder.annotated())); });
    if (opened.height * opened.width > kMostPixels) return;
    ImageWindow window{.height = opened.height, .width = opened.width};
    int eighths = 8;
    if (decoder.is_scalable() && (choice & 8) != 0) {
      eighths = 4;
      window = {.height = (opened.height + 1) / 2, .width = (opened.width + 1) / 2};
    }
    if ((choice & 16) != 0) {
      window = {.top = window.height / 3,
                .left = window.width / 3,
                .height = window.height - window.height / 3,
                .width = window.width - window.width / 3};
    }
    look_at(decoder.pixels(window, eighths));
  });
  return 0;
}
