// A mean image.
#include "data/transform/mean_file.hpp"

#include "fuzz/target.hpp"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::string path = fuzz::write_input("mean.binaryproto", bytes, count);
  fuzz::attempt_in_little_memory([&] {
    const MeanImage mean = read_mean_file(path);
    if (static_cast<int64_t>(mean.values.size()) != mean.shape.count())
      fuzz::fail("a mean image of another size than its shape");
  });
  return 0;
}
