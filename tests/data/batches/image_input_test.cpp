#include "data/batches/image_input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/blob.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

BlobProto mean_of(int num) {
  BlobProto mean;
  mean.set_num(num);
  mean.set_channels(3);
  mean.set_height(4);
  mean.set_width(4);
  for (int i = 0; i < num * 48; ++i) mean.add_data(static_cast<float>(i / 16));
  return mean;
}

TEST(ImageInput, MeanFilesHoldOneImage) {
  const test::ScratchFolder folder;
  const std::string one = folder.write("one", mean_of(1).SerializeAsString());
  EXPECT_THAT(channel_means(one), testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(mean_image_shape(one), Shape({3, 4, 4}));
  const std::string many = folder.write("many", mean_of(2000).SerializeAsString());
  expect_error([&] { channel_means(many); }, {"many'", "2000x3x4x4", "not one image"});
  expect_error([&] { mean_image_shape(many); }, {"many'", "2000x3x4x4", "not one image"});
}

TEST(ImageInput, FoldersGiveTheKindsThatCanBeDecoded) {
  const test::ScratchFolder folder;
  for (const char* name : {"b.PNM", "a.jpeg", "c.gif", "d.txt"}) folder.write(name, "");
  EXPECT_THAT(images_in_folder(folder.path().string()),
              testing::ElementsAre(folder / "a.jpeg", folder / "b.PNM", folder / "c.gif"));
}

// As data layers do, which take a link for the folder of a class.
TEST(ImageInput, LinkedFoldersCount) {
  namespace fs = std::filesystem;
  const test::ScratchFolder folder;
  for (const char* name : {"set/a", "other"}) fs::create_directories(folder / name);
  folder.write("set/a/1.png", "");
  folder.write("other/2.png", "");
  fs::create_directory_symlink(folder / "other", folder / "set/b");
  fs::create_directory_symlink(folder / "other", folder / "set/c");
  fs::create_directory_symlink(folder / "set", folder / "set/a/up");
  fs::create_directory_symlink(folder / "set", folder / "other/back");
  fs::create_directory_symlink(folder / "none", folder / "set/dangling");
  EXPECT_THAT(
      images_in_folder(folder / "set"),
      testing::ElementsAre(folder / "set/a/1.png", folder / "set/b/2.png", folder / "set/c/2.png"));
}

}  // namespace
}  // namespace crema
