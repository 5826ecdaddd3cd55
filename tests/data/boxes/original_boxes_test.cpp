#include "data/boxes/original_boxes.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "model/text_format.hpp"
#include "proto/augment.pb.h"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

/// The box (0.1, 0.2, 0.5, 1.2) in an image of 100 rows and 200 columns.
void expect_original(const std::string& resize, const Box& expected) {
  SCOPED_TRACE(resize);
  ResizeParameter param;
  if (!resize.empty()) parse_text_proto(resize, "text", param);
  const Box box = in_original({0.1, 0.2, 0.5, 1.2}, {100, 200}, param);
  EXPECT_NEAR(box.left, expected.left, 1e-9);
  EXPECT_NEAR(box.top, expected.top, 1e-9);
  EXPECT_NEAR(box.right, expected.right, 1e-9);
  EXPECT_NEAR(box.bottom, expected.bottom, 1e-9);
}

TEST(OriginalBoxes, ByModeOfResizing) {
  expect_original("", {20, 20, 100, 100});
  expect_original("resize_mode: WARP height: 300 width: 300", {20, 20, 100, 100});
  // The image covers the middle half of the rows: 0.2 is above it, 1.2 below.
  expect_original("resize_mode: FIT_LARGE_SIZE_AND_PAD height: 300 width: 300", {20, 0, 100, 100});
  // It covers a quarter to three quarters of 1200 columns.
  expect_original("resize_mode: FIT_LARGE_SIZE_AND_PAD height: 300 width: 1200", {0, 20, 100, 100});
  expect_original("resize_mode: FIT_SMALL_SIZE height: 300 width: 300", {20, 20, 100, 100});
  expect_original("resize_mode: FIT_SMALL_SIZE height_scale: 50 width_scale: 600",
                  {60, 10, 200, 60});
}

TEST(OriginalBoxes, SizesMustBeGivenForPadding) {
  ResizeParameter param;
  param.set_resize_mode(ResizeParameter::FIT_LARGE_SIZE_AND_PAD);
  param.set_height(10);
  expect_error([&] { check_unresizing(param); }, {"FIT_LARGE_SIZE_AND_PAD", "width"});
  param.set_width(10);
  check_unresizing(param);
}

TEST(OriginalBoxes, NamedSizes) {
  const TempFolder folder;
  const std::string path = folder.path("sizes.txt");
  std::ofstream(path) << "000001 500 353\n\n my cat \t 3 4 \n";
  const std::vector<NamedSize> images = read_named_sizes(path);
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0].name, "000001");
  EXPECT_EQ(images[0].size.height, 500);
  EXPECT_EQ(images[0].size.width, 353);
  EXPECT_EQ(images[1].name, "my cat");
  EXPECT_EQ(images[1].size.width, 4);
  for (const char* line : {"a 3", "a 3 b", "3 4", "a 3 4.5"}) {
    std::ofstream(path) << "b 1 1\n" << line << "\n";
    expect_error([&] { read_named_sizes(path); }, {"sizes.txt:2", line, "name height width"});
  }
  std::ofstream(path) << "a 0 4\n";
  expect_error([&] { read_named_sizes(path); }, {"'a'", "0 x 4"});
}

}  // namespace
}  // namespace crema::test
