// A tar file of images: its members listed and read.
#include "data/tar_source.hpp"
#include "fuzz/target.hpp"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::string path = fuzz::write_input("images.tar", bytes, count);
  fuzz::attempt_in_little_memory([&] {
    const auto source = open_tar(path, "", {});
    const auto reader = source->reader(ReadOrder::forward);
    for (int64_t i = 0; i < source->count(); ++i) {
      fuzz::attempt([&] { reader->read(i); });
    }
  });
  return 0;
}
