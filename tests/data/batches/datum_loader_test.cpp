#include "data/batches/datum_loader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "data/databases/verify_database.hpp"
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

/// A JPEG file whose header says other sides.
std::string with_sides(std::string file, uint16_t height, uint16_t width) {
  const size_t frame = file.find("\xff\xc0");  // its length, bits, height and width follow
  EXPECT_NE(frame, std::string::npos);
  for (const auto& [at, side] : {std::pair{frame + 5, height}, {frame + 7, width}}) {
    file[at] = static_cast<char>(side >> 8);
    file[at + 1] = static_cast<char>(side & 255);
  }
  return file;
}

TEST(DatumLoader, AnImageWithoutMemoryIsAnErrorWithItsKey) {
  if (!test::kBuiltWithOpenCv || !test::kBuiltWithLibjpeg)
    GTEST_SKIP()
        << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  const std::string good = test::jpeg_file(test::picture(16, 16, 3), 16, 16);
  // 1200 MB, from a file that is long enough for them.
  const std::string huge = with_sides(good, 20000, 20000) + std::string(200'000, 'x');
  const test::ScratchFolder folder;
  test::write_database(folder / "db", {{"good", jpeg_record(good)}, {"huge", jpeg_record(huge)}});
  DatumLoading loading{.source = open_database({.path = folder / "db"}), .varies = true};
  loading.transform = std::make_shared<Transform>(TransformationParameter(), Phase::test);
  loading.format = first_format(loading);
  const std::atomic<bool> stop = false;
  ImageBatch batch;
  batch.samples = {{.record = 1}};
  const auto reader = loading.source->reader(ReadOrder::forward);
  const Record record = reader->read(1);
  {
    DatumLoader loader(loading);
    DatumDecoder decoder(ColorMode::as_stored);
    const test::MemoryLimit limit(size_t{512} << 20);
    expect_error([&] { loader.load(batch, stop); }, {"record 'huge'", "memory", "on_bad_record"});
    expect_error([&] { decoder.decode(record); }, {"record 'huge'", "memory"});
    expect_error([&] { format_of(record, loading); }, {"record 'huge'", "memory"});
    const VerifyReport report = verify_database(*loading.source);
    EXPECT_EQ(report.bad, 1);
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_NE(report.problems[0].find("record 'huge': the memory"), std::string::npos)
        << report.problems[0];
  }
  loading.skip_bad = true;
  DatumLoader loader(loading);
  const test::MemoryLimit limit(size_t{512} << 20);
  loader.load(batch, stop);
  EXPECT_EQ(batch.samples[0].record, 0);
  EXPECT_EQ(batch.skipped.size(), 1u);
  EXPECT_EQ(batch.shape, Shape({3, 16, 16}));
}

TEST(DatumLoader, StepsThatNeedColourFailBeforeTraining) {
  const test::ScratchFolder folder;
  test::write_database(folder / "db", test::counting_records(3, 1, 4, 4));
  DatumLoading loading{.source = open_database({.path = folder / "db"})};
  TransformationParameter param;
  param.mutable_distort_param()->set_hue_prob(1e-6f);
  param.mutable_distort_param()->set_hue_delta(9);
  loading.transform = std::make_shared<Transform>(param, Phase::train);
  expect_error([&] { first_format(loading); }, {"hue_prob", "needs colour", "1 channels"});
  param.clear_distort_param();
  EXPECT_FALSE(first_format({.source = loading.source,
                             .transform = std::make_shared<Transform>(param, Phase::train)})
                   .changes);
  param.mutable_blur_param();
  loading.transform = std::make_shared<Transform>(param, Phase::train);
  EXPECT_TRUE(first_format(loading).changes);
}

/// Whose settings name a file that is missing.
class NoTargets final : public TargetLoader {
 public:
  void open(const Record&, const DatumDecoder&, const Image&) override {}
  bool replaces_labels() const override { return false; }
  DrawnSteps draw(const Augmentation&, ImageSize, const SampleRandom&) override {
    throw Error("cannot open 'nowhere/boxes'").about("nowhere/boxes");
  }
  void place(const std::vector<ImageStep>&, const Geometry&) override {}
  void load(const Sample&, size_t) override {}
};

TEST(DatumLoader, AnErrorWithTheKeyIsAboutTheSamePath) {
  const test::ScratchFolder folder;
  test::write_database(folder / "db", test::counting_records(3, 1, 4, 4));
  NoTargets targets;
  const DatumLoading loading{
      .source = open_database({.path = folder / "db"}),
      .transform = std::make_shared<Transform>(TransformationParameter(), Phase::test)};
  try {
    first_format(loading, &targets);
    ADD_FAILURE() << "no Error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "record '00000000': cannot open 'nowhere/boxes'");
    EXPECT_EQ(error.path(), "nowhere/boxes");
  }
}

TEST(DatumDecoder, SidesThatTheBytesCannotHoldAreAnError) {
  if (!test::kBuiltWithOpenCv || !test::kBuiltWithLibjpeg)
    GTEST_SKIP()
        << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  DatumDecoder decoder(ColorMode::color);
  for (const int orientation : {0, 6}) {  // libjpeg-turbo's, OpenCV's
    const std::string good =
        test::jpeg_file(test::picture(16, 16, 3), 16, 16, {.orientation = orientation});
    const std::string record = jpeg_record(with_sides(good, 30000, 30000));
    expect_error([&] { decoder.open({.key = "huge", .value = record}); },
                 {"record 'huge'", "bytes cannot hold the 30000 x 30000 pixels"});
  }
  // The emptiest picture has fewer pixels a byte.
  const std::string gray = test::jpeg_file(std::vector<uint8_t>(2000 * 2000), 2000, 2000,
                                           {.channels = 1, .quality = 1, .progressive = true});
  const std::string record = jpeg_record(gray);
  EXPECT_EQ(decoder.decode({.key = "k", .value = record}).shape(), (Shape{3, 2000, 2000}));
}

}  // namespace
}  // namespace crema
