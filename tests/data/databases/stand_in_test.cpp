// Git LFS pointers and web pages in the place of files.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/converters/gzip_file.hpp"
#include "data/databases/open_database.hpp"
#include "data/databases/open_source.hpp"
#include "data/records/image_list.hpp"
#include "data/transform/mean_file.hpp"
#include "model/array_file.hpp"
#include "model/binary_format.hpp"
#include "model/file_kind.hpp"
#include "model/hdf5_file.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "proto/blob.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
constexpr const char* kPage = "\n<!DOCTYPE html>\n<html lang=\"en\"><head></head></html>\n";

TEST(StandIn, IsToldByItsBeginning) {
  EXPECT_EQ(kind_of(kPointer), FileKind::lfs_pointer);
  for (const std::string text :
       {kPage, "<HTML>", "\xEF\xBB\xBF<!doctype HTML PUBLIC \"-\">", "<!-- a --> <html>",
        "<?xml version='1.0' encoding='UTF-8'?><Error><Code>AccessDenied</Code></Error>",
        "<?xml version=\"1.0\"?>\n<!DOCTYPE html PUBLIC \"-\">", "404: Not Found"}) {
    EXPECT_EQ(kind_of(text), FileKind::web_page) << text;
  }
  for (const std::string text :
       {"name: 'x'", "<annotation></annotation>", "<?xml version='1.0'?><annotation/>", "<?xml",
        "layer <name: 'html'>", "version 2", "a.jpg 404", "<!-- "}) {
    EXPECT_EQ(kind_of(text), FileKind::text) << text;
  }
}

/// One of the two stand-ins, and what is said of it.
struct Case {
  const char* name;
  const char* contents;
  const char* is;
  const char* way_out;
};

class StandInOf : public testing::TestWithParam<Case> {
 protected:
  template <class Body>
  void refused(const Body& body, std::string_view more = "") {
    expect_error(body, {GetParam().is, GetParam().way_out, more});
  }
  std::string put(const std::string& name) { return folder_.write(name, GetParam().contents); }
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, StandInOf,
                         testing::Values(Case{"lfs", kPointer, "a Git LFS pointer", "git lfs pull"},
                                         Case{"html", kPage, "a web page", "download it again"}),
                         [](const auto& of) { return of.param.name; });

TEST_P(StandInOf, Messages) {
  NetParameter net;
  SolverState state;
  SolverParameter solver;
  BlobProto blob;
  ArrayFile arrays;
  refused([&] { read_weights(put("a.caffemodel"), net); }, "a.caffemodel' is not a weights file");
  refused([&] { read_weights(put("a.caffemodel.h5"), net); });
  refused([&] { read_solver_state(put("a.solverstate"), state); }, "a solver's state");
  refused([&] { read_binary_proto(put("a.binaryproto"), blob); });
  refused([&] { read_text_proto(put("a.prototxt"), net); }, "is not a net prototxt but");
  refused([&] { read_text_proto(put("s.prototxt"), solver); }, "is not a solver prototxt but");
  refused([&] { read_array_file(put("a.caffemodel"), arrays); });
  refused([&] { check_snapshot_file(put("a.caffemodel")); });
}

TEST_P(StandInOf, DataOfAllKinds) {
  refused([&] { read_mean_file(put("mean.binaryproto")); }, "is not a mean_file but");
  std::string bytes;
  refused([&] { read_file_bytes(put("a.jpg"), bytes); });
  refused([&] { read_image_list(put("list.txt")); });
  refused([&] { GzipFile(put("train-images-idx3-ubyte.gz")); });
  refused([&] { guess_source_kind(put("images")); });
  if (test::kBuiltWithHdf5) refused([&] { Hdf5Reader(put("a.h5")); }, "is not an HDF5 file but");
  refused([&] { open_database({.path = put("lmdb")}); }, "is not a data source but");
  std::filesystem::create_directory(folder_.path("db"));
  put("db/data.mdb");
  refused([&] { open_database({.path = folder_.path("db")}); }, "data.mdb is");
}

TEST_P(StandInOf, AFileOfALevelDb) {
  if (!test::kBuiltWithLevelDb) GTEST_SKIP() << "needs LevelDB: configure with CREMA_LEVELDB=ON";
  std::filesystem::create_directory(folder_.path("db"));
  put("db/CURRENT");
  refused([&] { open_database({.path = folder_.path("db"), .kind = DatabaseKind::leveldb}); },
          "CURRENT' is not a file of a LevelDB but");
}

}  // namespace
}  // namespace crema
