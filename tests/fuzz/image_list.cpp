// A list of images with labels.
#include "data/records/image_list.hpp"

#include "fuzz/target.hpp"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::string path = fuzz::write_input("list.txt", bytes, count);
  fuzz::attempt([&] {
    for (const ListedImage& image : read_image_list(path)) {
      if (image.file.empty() || image.line < 1) fuzz::fail("an image without a name or line");
    }
  });
  return 0;
}
