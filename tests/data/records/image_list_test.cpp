#include "data/records/image_list.hpp"

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

TEST(ImageList, AByteOrderMarkIsNoPartOfAName) {
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a.jpg 1\n")[0]
                .file,
            "a.jpg");
  expect_error(
      [] {
        read(
            std::string("\xFF\xFE"
                        "a\0 \0"
                        "1\0",
                        8));
      },
      {"UTF-16", "save it as UTF-8"});
}

TEST(ImageList, LinesThatAreNoneAreErrorsWithTheirNumber) {
  expect_error([] { read("a.jpg 1\ncat.jpg\n"); }, {"list.txt:2", "'cat.jpg' has no label"});
  expect_error([] { read("a.jpg dog\n"); }, {"list.txt:1", "label 'dog' of 'a.jpg'"});
  expect_error([] { read("a.jpg 1,5\n"); }, {"'a.jpg'", "label '1,5'", "a number"});
  expect_error([] { read("a.jpg nan\n"); }, {"label 'nan'"});
  expect_error([] { read("a.jpg 1e99\n"); }, {"label '1e99'"});
  expect_error([] { read("a.jpg 3000000000\n"); }, {"label '3000000000'", "32 bits"});
  for (const char* twice : {"+-3", "++3", "-+3", "--3"}) {
    expect_error([&] { read(text("a.jpg ", twice, "\n")); }, {text("label '", twice, "'")});
  }
  EXPECT_EQ(read("a.jpg +3\n")[0].label, 3);
  expect_error([] { read("a.jpg 1\na.jpg 1 16777217\n"); },
               {"list.txt:2", "label '16777217'", "exact value in f32"});
  expect_error([] { read("a.jpg 1\n\nb.jpg 1 2.5\n"); },
               {"list.txt:3", "'b.jpg' has the labels 1 2.5", "'a.jpg' of line 1 has 1"});
}

TEST(ImageList, SeveralNumbersAreLabelsBehindANameWithAnExtension) {
  const auto images = read("my cat 2.jpg 3 -0.5\t1e2\n a.b/c.png 1 2 +3\n");
  EXPECT_EQ(images[0].file, "my cat 2.jpg");
  EXPECT_EQ(images[0].floats, (std::vector<float>{3, -0.5f, 100}));
  EXPECT_EQ(images[1].file, "a.b/c.png");
  EXPECT_EQ(images[1].floats, (std::vector<float>{1, 2, 3}));
  // As published: one label, and a name that ends in a number.
  const auto published = read("image 7 3\nphotos.d/8 4\n5 6\n");
  EXPECT_EQ(published[0].file, "image 7");
  EXPECT_EQ(published[0].label, 3);
  EXPECT_EQ(published[1].file, "photos.d/8");
  EXPECT_EQ(published[2].file, "5");
  EXPECT_TRUE(published[2].floats.empty());
  EXPECT_EQ(read("a.jpg 0.5")[0].floats, std::vector<float>{0.5f});
}

TEST(ImageList, MissingOrEmptyIsAnError) {
  expect_error([] { read_image_list("no/such/list"); }, {"cannot open the list 'no/such/list'"});
  expect_error([] { read("\n \n"); }, {"is empty"});
  const test::ScratchFolder folder;
  expect_error([&] { read_image_list(folder.path().string()); }, {"list", "file label"});
}

}  // namespace
}  // namespace crema
