#include "data/datum_loader.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "proto/common.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/jpeg_file.hpp"
#include "support/memory_limit.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

std::string jpeg_record(const std::string& file) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(file);
  datum.set_label(0);
  return datum.SerializeAsString();
}

TEST(DatumLoader, AnImageThatSaysHugeSidesIsAnErrorWithItsKey) {
  if (!test::kBuiltWithOpenCv || !test::kBuiltWithLibjpeg)
    GTEST_SKIP()
        << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  const std::string good = test::jpeg_file(test::picture(16, 16, 3), 16, 16);
  std::string huge = good;
  const size_t frame = huge.find("\xff\xc0");  // its length, bits, height and width follow
  ASSERT_NE(frame, std::string::npos);
  huge.replace(frame + 5, 4, "\x75\x30\x75\x30");  // 30000 x 30000
  const test::ScratchFolder folder;
  test::write_database(folder / "db", {{"good", jpeg_record(good)}, {"huge", jpeg_record(huge)}});
  DatumLoading loading{.source = open_database({.path = folder / "db"}), .varies = true};
  loading.transform = std::make_shared<Transform>(TransformationParameter(), Phase::test);
  loading.format = first_format(loading);
  const std::atomic<bool> stop = false;
  Batch batch;
  batch.samples = {{.record = 1}};
  {
    DatumLoader loader(loading);
    const test::MemoryLimit limit(size_t{512} << 20);
    expect_error([&] { loader.load(batch, stop); }, {"record 'huge'", "memory", "on_bad_record"});
  }
  loading.skip_bad = true;
  DatumLoader loader(loading);
  const test::MemoryLimit limit(size_t{512} << 20);
  loader.load(batch, stop);
  EXPECT_EQ(batch.samples[0].record, 0);
  EXPECT_EQ(batch.skipped.size(), 1u);
  EXPECT_EQ(batch.shape, Shape({3, 16, 16}));
}

}  // namespace
}  // namespace crema
