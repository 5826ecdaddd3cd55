// Errors about files and folders that are missing name them: Error::path().
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "crema/plugin.hpp"
#include "data/batches/image_input.hpp"
#include "data/converters/gzip_file.hpp"
#include "data/databases/file_pattern.hpp"
#include "data/databases/folder_beside.hpp"
#include "data/databases/open_database.hpp"
#include "data/records/image_folder.hpp"
#include "data/records/image_list.hpp"
#include "data/records/record_source.hpp"
#include "data/records/text_list.hpp"
#include "data/transform/mean_file.hpp"
#include "model/array_file.hpp"
#include "model/binary_format.hpp"
#include "model/file_kind.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "model/whole_file.hpp"
#include "proto/net.pb.h"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

/// The path of the Error that `body` throws.
std::string path_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(error.path()), std::string::npos) << error.what();
    return error.path();
  }
  ADD_FAILURE() << "no Error";
  return "";
}

TEST(ErrorPath, IsThatOfTheMissingFile) {
  const std::string none = "nowhere/none";
  NetParameter net;
  ArrayFile arrays;
  EXPECT_EQ(path_of([&] { read_text_proto(none, net); }), none);
  EXPECT_EQ(path_of([&] { read_binary_proto(none, net); }), none);
  EXPECT_EQ(path_of([&] { read_array_file(none, arrays); }), none);
  EXPECT_EQ(path_of([&] { check_snapshot_file(none); }), none);
  EXPECT_EQ(path_of([&] { kind_of_file(none); }), none);
  EXPECT_EQ(path_of([&] { read_mean_file(none); }), none);
  EXPECT_EQ(path_of([&] { read_image_list(none); }), none);
  EXPECT_EQ(path_of([&] { GzipFile{none}; }), none);
  EXPECT_EQ(path_of([&] { plain_or_gzip("nowhere", "none", ""); }), none);
  EXPECT_EQ(path_of([&] { open_database({.path = none}); }), none);
  EXPECT_EQ(path_of([&] { images_in_folder(none); }), none);
  EXPECT_EQ(path_of([&] { load_plugin(none); }), none);
}

TEST(ErrorPath, IsThatOfTheMissingFolderOfAFileToWrite) {
  EXPECT_EQ(path_of([] { check_output_file("nowhere/deep/none"); }), "nowhere/deep");
  EXPECT_EQ(path_of([] { FolderBeside("nowhere/deep/none", "the database"); }), "nowhere/deep");
}

TEST(ErrorPath, StaysWhenTheErrorIsToldAnew) {
  const auto missing = [](const std::string& list, int64_t line) {
    in_image("nowhere/a.jpg", list, line, [] {
      std::string bytes;
      read_file_bytes("nowhere/a.jpg", bytes);
    });
  };
  EXPECT_EQ(path_of([&] { missing("", 0); }), "nowhere/a.jpg");
  EXPECT_EQ(path_of([&] { missing("list.txt", 3); }), "nowhere/a.jpg");
}

TEST(ErrorPath, IsEmptyForOtherErrors) {
  const TempFolder folder;
  const std::string path = folder.write("net.prototxt", "layers_ { }");
  NetParameter net;
  std::string message;
  try {
    read_text_proto(path, net);
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.path(), "");
  }
  EXPECT_NE(message, "");
}

}  // namespace
}  // namespace crema
