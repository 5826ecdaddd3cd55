// What layers make of image files beyond their pixels: orientations, lost bits and palettes, and
// batches of several sizes.
#include "support/image_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "crema/net.hpp"
#include "data/converters/converters.hpp"
#include "support/annotated.hpp"
#include "support/database.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

class ImageFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }
  /// What a net of the layer warns of in two batches.
  std::vector<std::string> warnings(const std::string& layer) {
    std::vector<std::string> all;
    Context context({.logger = [&](Severity severity, const std::string& text) {
      if (severity == Severity::warning) all.push_back(text);
    }});
    Net net(test::net_param(layer), context, {.phase = Phase::train});
    net.forward();
    net.forward();
    return all;
  }
  std::string image_data(const std::string& lines, const std::string& settings) {
    return text("layer { name: 'photos' type: 'ImageData' top: 'data' image_data_param { source: '",
                folder_.write("list.txt", lines), "' root_folder: '", folder_.path().string(), "' ",
                settings, " } }");
  }
  test::ScratchFolder folder_;
};

// Boxes are of the upright picture, and records may be files of a camera.
TEST_F(ImageFiles, BoxesAreWhereTheTurnedPixelsAre) {
  if (!test::kBuiltWithLibjpeg || !test::kBuiltWithAnnotations)
    GTEST_SKIP() << "needs CREMA_LIBJPEG=ON and CREMA_ANNOTATIONS=ON";
  // Upright: 40 wide, 60 high, white from (8, 16) to (24, 32). In the file, rows are columns.
  std::vector<uint8_t> stored(60 * 40, 0);
  for (int x = 8; x < 24; ++x) {
    for (int y = 16; y < 32; ++y)
      // Orientation 6: column x of the picture is the file's row 39 - x.
      stored[static_cast<size_t>((39 - x) * 60 + y)] = 255;
  }
  const std::string jpeg = test::jpeg_file(stored, 40, 60, {.channels = 1, .quality = 100});
  folder_.write("a.jpg", test::jpeg_with_exif(jpeg, test::exif(6)));
  folder_.write("a.txt", "1 8 16 24 32\n");
  for (const bool encoded : {false, true}) {
    const std::string output = folder_ / text("db", encoded);
    convert_annotations({.root = folder_.path().string(),
                         .list = folder_.write("pairs.txt", "a.jpg a.txt\n"),
                         .output = output,
                         .label_type = "txt",
                         .gray = true,
                         .encoded = encoded});
    for (const char* transform : {"", "force_gray: true", "crop_size: 36",
                                  "resize_param { height: 60 width: 40 interp_mode: LINEAR }"}) {
      LayerRun run({.layer = text("layer { type: 'AnnotatedData' top: 'data' top: 'label' "
                                  "transform_param { ",
                                  transform, " } data_param { source: '", output,
                                  "' backend: LMDB batch_size: 1 } }"),
                    .phase = Phase::test});
      run.forward();
      const Shape& shape = run.top_blob(0).shape();
      const bool crops = std::string(transform).starts_with("crop");
      EXPECT_EQ(shape, (crops ? Shape{1, 1, 36, 36} : Shape{1, 1, 60, 40})) << transform;
      int64_t left = 99, top = 99, right = -1, bottom = -1;
      for (int64_t i = 0; i < shape.count(); ++i) {
        if (run.top(0)[static_cast<size_t>(i)] < 128) continue;
        left = std::min(left, i % shape[3]);
        right = std::max(right, i % shape[3] + 1);
        top = std::min(top, i / shape[3]);
        bottom = std::max(bottom, i / shape[3] + 1);
      }
      const auto h = static_cast<double>(shape[2]), w = static_cast<double>(shape[3]);
      const std::vector<double> box(run.top(1).begin() + 3, run.top(1).begin() + 7);
      EXPECT_THAT(box, Pointwise(DoubleNear(1e-6),
                                 {static_cast<double>(left) / w, static_cast<double>(top) / h,
                                  static_cast<double>(right) / w, static_cast<double>(bottom) / h}))
          << transform << (encoded ? ", encoded" : "");
    }
  }
}

TEST_F(ImageFiles, LossOfDepthIsSaidOnce) {
  const std::vector<uint16_t> deep = {0x1234, 0xffff};
  folder_.write("a.png", test::png_file(deep, 1, 2, {.color = 0, .depth = 16}));
  folder_.write("b.tif", test::tiff_file(deep, 1, 2, {.channels = 1, .bits = 16}));
  folder_.write("c.png", test::png_file({1, 2}, 1, 2, {.color = 0}));
  for (const char* name : {"a.png", "b.tif"}) {
    EXPECT_THAT(warnings(image_data(text("c.png 0\n", name, " 1\n"), "batch_size: 2")),
                ElementsAre(AllOf(HasSubstr("'photos'"), HasSubstr(name),
                                  HasSubstr("more than 8 bits"), HasSubstr("--keep_depth"))));
  }
  EXPECT_THAT(warnings(image_data("c.png 0\nc.png 1\n", "batch_size: 2")), testing::IsEmpty());
}

TEST_F(ImageFiles, APaletteReadAsGrayIsSaidOnce) {
  const std::string palette("\0\0\0\x80\0\0\0\x80\0", 9);
  folder_.write("map.png", test::png_file({0, 1, 2, 1}, 2, 2, {.color = 3, .palette = palette}));
  const std::string lines = "map.png 0\nmap.png 1\n";
  EXPECT_THAT(warnings(image_data(lines, "batch_size: 2 is_color: false")),
              ElementsAre(AllOf(HasSubstr("'photos'"), HasSubstr("map.png"), HasSubstr("palette"),
                                HasSubstr("DenseImageData"))));
  EXPECT_THAT(warnings(image_data(lines, "batch_size: 2")), testing::IsEmpty())
      << "colours are kept";
}

// A training net of MobileNet-YOLO, made small.
constexpr const char* kSizes =
    "resize_param { prob: 0.1 resize_mode: WARP height: 8 width: 8 } "
    "resize_param { prob: 0.3 resize_mode: WARP height: 16 width: 24 } "
    "resize_param { prob: 0.6 resize_mode: FIT_LARGE_SIZE_AND_PAD height: 32 width: 32 "
    "  interp_mode: LINEAR interp_mode: AREA }";

TEST_F(ImageFiles, EachBatchHasOneOfSeveralSizes) {
  std::vector<AnnotatedDatum> boxed;
  test::Records plain;
  for (int i = 0; i < 7; ++i) {
    boxed.push_back(test::boxed_rectangle(20 + i, 30, {4, 5, 12, 15}));
    plain.emplace_back(text("k", i), test::byte_datum(3, 20, 30 + i, i).SerializeAsString());
  }
  test::write_database(folder_ / "boxed", test::annotated_records(boxed));
  test::write_database(folder_ / "plain", plain);
  for (const auto& [type, database] : {std::pair{"AnnotatedData", "boxed"}, {"Data", "plain"}}) {
    Context context;
    const auto net = [&](const std::string& settings, Phase phase = Phase::train) {
      return std::make_unique<Net>(
          test::net_param(text("layer { name: 'data' type: '", type,
                               "' top: 'data' top: 'label' transform_param { ", kSizes,
                               " mirror: true } data_param { source: '", folder_ / database,
                               "' backend: LMDB batch_size: 3 shuffle: true ", settings, " } }")),
          context, NetOptions{.phase = phase});
    };
    const auto next = [](Net& one, int batches) {
      std::vector<std::pair<Shape, std::vector<float>>> all;
      for (int b = 0; b < batches; ++b) {
        one.forward();
        const Tensor& data = one.blob("data").data;
        const auto values = data.values<float>();
        all.emplace_back(data.shape(), std::vector<float>(values.begin(), values.end()));
      }
      return all;
    };
    constexpr int kBatches = 200;
    const auto first = net("threads: 1");
    const auto all = next(*first, kBatches);
    EXPECT_EQ(all, next(*net("threads: 3"), kBatches)) << type;
    const auto share = [&, &all = all](const Shape& shape) {
      const auto is = [&](const auto& batch) { return batch.first == shape; };
      return static_cast<double>(std::ranges::count_if(all, is)) / kBatches;
    };
    EXPECT_NEAR(share({3, 3, 8, 8}), 0.1, 0.07) << type;
    EXPECT_NEAR(share({3, 3, 16, 24}), 0.3, 0.1) << type;
    EXPECT_NEAR(share({3, 3, 32, 32}), 0.6, 0.1) << type;
    EXPECT_NEAR(share({3, 3, 8, 8}) + share({3, 3, 16, 24}) + share({3, 3, 32, 32}), 1, 1e-9);
    // What a snapshot has of the data is their position.
    const RecordCursor cursor = dynamic_cast<DataSource&>(first->layer("data")).cursor();
    const auto later = next(*first, 10);
    const auto resumed = net("");
    dynamic_cast<DataSource&>(resumed->layer("data")).set_cursor(cursor);
    EXPECT_EQ(next(*resumed, 10), later) << type;
    for (const auto& batch : next(*net("", Phase::test), 3))
      EXPECT_EQ(batch.first, (Shape{3, 3, 8, 8})) << "the first in TEST";
  }
}

TEST_F(ImageFiles, ANetFollowsTheSizesOfItsBatches) {
  test::Records plain;
  for (int i = 0; i < 7; ++i)
    plain.emplace_back(text("k", i), test::byte_datum(3, 20, 30, i).SerializeAsString());
  test::write_database(folder_ / "plain", plain);
  Context context;
  Net net(test::net_param(text(
              "layer { name: 'data' type: 'Data' top: 'data' top: 'label' transform_param { ",
              kSizes, " } data_param { source: '", folder_ / "plain",
              "' backend: LMDB batch_size: 2 } } layer { name: 'conv' type: 'Convolution' bottom: "
              "'data' top: 'conv' convolution_param { num_output: 2 kernel_size: 3 pad: 1 } }")),
          context, {.phase = Phase::train});
  std::set<int64_t> heights;
  for (int i = 0; i < 30; ++i) {
    net.forward();
    const Shape &in = net.blob("data").shape(), &out = net.blob("conv").shape();
    EXPECT_EQ(out, (Shape{2, 2, in[2], in[3]}));
    heights.insert(in[2]);
  }
  EXPECT_THAT(heights, ElementsAre(8, 16, 32));
}

}  // namespace
}  // namespace crema
