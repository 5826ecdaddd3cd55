// What weights see in images that are dropped on a page of crema board.
#include "monitor/board/image_viewer.hpp"

#include <gtest/gtest.h>

#include "crema/error.hpp"
#include "model/binary_format.hpp"
#include "proto/net.pb.h"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

class ImageViewerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }

  /// Weights that say this of the training, with those of a layer "ip": 0, and 0.5 as bias.
  std::string weights(const std::string& name, bool has_transform = true) const {
    NetParameter net;
    Origin& origin = *net.mutable_origin();
    for (const char* one : {"blue", "green", "red"}) origin.add_class_name(one);
    if (has_transform) origin.mutable_transform()->set_scale(0.5F);
    LayerParameter& layer = *net.add_layer();
    layer.set_name("ip");
    layer.set_type("InnerProduct");
    BlobProto &weight = *layer.add_blobs(), &bias = *layer.add_blobs();
    weight.mutable_shape()->add_dim(14);
    weight.mutable_shape()->add_dim(12);
    weight.mutable_data()->Resize(14 * 12, 0);
    bias.mutable_shape()->add_dim(14);
    bias.mutable_data()->Resize(14, 0.5F);
    write_binary_proto_atomically(folder_.path(name), net);
    return folder_.path(name);
  }
  static RunFiles run_of(const std::string& layers) {
    RunFiles run;
    run.folder = "runs/a-1";
    run.net_text =
        "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 3 dim: 2 "
        "dim: 2 } } }" +
        layers;
    return run;
  }
  /// One colour.
  static std::string image(uint16_t red, uint16_t green, uint16_t blue) {
    std::vector<uint16_t> samples;
    for (int i = 0; i < 4 * 6; ++i) samples.insert(samples.end(), {red, green, blue});
    return test::png_file(samples, 4, 6);
  }

  TempFolder folder_;
  Context context_;
};

constexpr const char* kMeans =
    "layer { name: 'mean' type: 'Pooling' bottom: 'data' top: 'mean' pooling_param { pool: AVE "
    "global_pooling: true } }";

TEST_F(ImageViewerTest, NamesClassesAsTheTrainingSawImages) {
  ImageViewer viewer(context_);
  const SeenImage seen = viewer.see(run_of(kMeans), weights("w.caffemodel"), image(90, 20, 10));
  EXPECT_EQ(seen.kind, SeenImage::Kind::classes);
  EXPECT_EQ(seen.width, 6);
  EXPECT_EQ(seen.height, 4);
  ASSERT_EQ(seen.found.size(), 3U);
  EXPECT_EQ(seen.found[0].name, "red");
  EXPECT_DOUBLE_EQ(seen.found[0].score, 45);
  EXPECT_EQ(seen.found[2].name, "blue");
  EXPECT_DOUBLE_EQ(seen.found[2].score, 5);
  EXPECT_TRUE(
      json_of(seen).starts_with("{\"kind\":\"classes\",\"width\":6,\"height\":4,\"milliseconds\":"))
      << json_of(seen);
  // Other weights are loaded in the place of these.
  EXPECT_DOUBLE_EQ(
      viewer.see(run_of(kMeans), weights("v.caffemodel", false), image(90, 20, 10)).found[0].score,
      90);
}

TEST_F(ImageViewerTest, ShowsTheClassOfEachPixel) {
  const SeenImage seen = ImageViewer(context_).see(
      run_of("layer { name: 'same' type: 'Power' bottom: 'data' top: 'out' }"),
      weights("w.caffemodel"), image(10, 90, 20));
  EXPECT_EQ(seen.kind, SeenImage::Kind::mask);
  ASSERT_EQ(seen.found.size(), 1U);
  EXPECT_EQ(seen.found[0].name, "green");
  EXPECT_DOUBLE_EQ(seen.found[0].score, 1);
  EXPECT_TRUE(seen.mask.starts_with("\x89PNG"));
}

TEST_F(ImageViewerTest, ShowsBoxesInPixelsOfTheImage) {
  // Two rows of a detector, all of whose values are 0.5.
  const SeenImage seen = ImageViewer(context_).see(
      run_of(
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { "
          "num_output: 14 } } layer { name: 'rows' type: 'Reshape' bottom: 'ip' top: 'rows' "
          "reshape_param { shape { dim: 1 dim: 1 dim: 2 dim: 7 } } }"),
      weights("w.caffemodel"), image(1, 2, 3));
  EXPECT_EQ(seen.kind, SeenImage::Kind::boxes);
  ASSERT_EQ(seen.found.size(), 2U);
  EXPECT_EQ(seen.found[0].name, "blue");
  EXPECT_DOUBLE_EQ(seen.found[0].score, 0.5);
  EXPECT_DOUBLE_EQ(seen.found[0].left, 3);
  EXPECT_DOUBLE_EQ(seen.found[0].top, 2);
  EXPECT_TRUE(json_of(seen).find("\"box\":[3,2,3,2]") != std::string::npos) << json_of(seen);
}

TEST_F(ImageViewerTest, RefusesWhatIsNoImageOrNoNetForOne) {
  ImageViewer viewer(context_);
  const std::string file = weights("w.caffemodel");
  expect_error([&] { viewer.see(run_of(kMeans), file, "text"); }, {"no PNG, JPEG"});
  // A head of 60000 x 60000 pixels, as of a small file that takes all memory.
  std::string large = image(1, 2, 3);
  large.replace(16, 8, std::string("\0\0\xea\x60\0\0\xea\x60", 8));
  expect_error([&] { viewer.see(run_of(kMeans), file, large); }, {"60000 x 60000", "smaller"});
  expect_error([&] { viewer.see(run_of(kMeans), file, image(1, 2, 3).substr(0, 40)); }, {"image"});
  RunFiles run = run_of(kMeans);
  run.net_text = "";
  expect_error([&] { viewer.see(run, file, image(1, 2, 3)); }, {"net.prototxt"});
  expect_error([&] { viewer.see(run_of(kMeans), folder_.path("none"), image(1, 2, 3)); }, {"none"});
}

}  // namespace
}  // namespace crema
