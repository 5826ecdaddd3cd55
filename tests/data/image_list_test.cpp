#include "data/image_list.hpp"

#include <gtest/gtest.h>

#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

std::vector<ListedImage> read(const std::string& text) {
  const test::ScratchFolder folder;
  return read_image_list(folder.write("list.txt", text));
}

TEST(ImageList, SplitsAtTheLastWhiteSpaceAfterTrimming) {
  const auto images =
      read("my cat.jpg 3\nimage_0159.jpg 9 \n\tdir/a b  c.png\t-12\r\n\n   \nlast.jpg 0");
  ASSERT_EQ(images.size(), 4u);
  EXPECT_EQ(images[0].file, "my cat.jpg");
  EXPECT_EQ(images[0].label, 3);
  EXPECT_EQ(images[1].file, "image_0159.jpg");
  EXPECT_EQ(images[1].label, 9);
  EXPECT_EQ(images[2].file, "dir/a b  c.png");
  EXPECT_EQ(images[2].label, -12);
  EXPECT_EQ(images[3].file, "last.jpg");
  EXPECT_EQ(images[3].line, 6);
}

TEST(ImageList, LinesThatAreNoneAreErrorsWithTheirNumber) {
  expect_error([] { read("a.jpg 1\ncat.jpg\n"); }, {"list.txt:2", "'cat.jpg' has no label"});
  expect_error([] { read("a.jpg dog\n"); }, {"list.txt:1", "label 'dog' of 'a.jpg'"});
  expect_error([] { read("a.jpg 1.5\n"); }, {"label '1.5'"});
  expect_error([] { read("a.jpg 3000000000\n"); }, {"label '3000000000'", "32 bits"});
}

TEST(ImageList, MissingOrEmptyIsAnError) {
  expect_error([] { read_image_list("no/such/list"); }, {"cannot open the list 'no/such/list'"});
  expect_error([] { read("\n \n"); }, {"is empty"});
  const test::ScratchFolder folder;
  expect_error([&] { read_image_list(folder.path().string()); }, {"list", "file label"});
}

}  // namespace
}  // namespace crema
