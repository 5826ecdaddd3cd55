// A build without an optional library says how to get the library where something needs it.
#include <gtest/gtest.h>

#include "data/boxes/annotation_files.hpp"
#include "data/databases/database_writer.hpp"
#include "data/databases/leveldb_database.hpp"
#include "data/databases/tar_source.hpp"
#include "data/images/image_decoder.hpp"
#include "data/records/class_list.hpp"
#include "data/records/datum.hpp"
#include "model/hdf5_file.hpp"
#include "monitor/board/board_server.hpp"
#include "parallel/communicator.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerRun;

TEST(Hdf5Stub, FilesSayHowToGetIt) {
  if (test::kBuiltWithHdf5)
    GTEST_SKIP() << "needs a build without HDF5: configure with CREMA_HDF5=OFF";
  expect_error([] { Hdf5Reader("a.h5"); }, {"'a.h5'", "CREMA_HDF5=ON", "libhdf5-dev"});
  expect_error([] { Hdf5Writer("a.h5"); }, {"'a.h5'", "CREMA_HDF5=ON"});
}

TEST(Hdf5Stub, LayersSayHowToGetIt) {
  if (test::kBuiltWithHdf5)
    GTEST_SKIP() << "needs a build without HDF5: configure with CREMA_HDF5=OFF";
  const test::ScratchFolder folder;
  const std::string list = folder.write("list.txt", "a.h5\n");
  expect_error(
      [&] {
        LayerRun run({.layer = text("layer { type: 'HDF5Data' top: 'data' hdf5_data_param { "
                                    "source: '",
                                    list, "' batch_size: 1 } }")});
      },
      {"list.txt:1", "'a.h5'", "CREMA_HDF5=ON"});
}

TEST(OpenCvStub, ImageDataSaysHowToGetIt) {
  if (test::kBuiltWithOpenCv)
    GTEST_SKIP() << "needs a build without OpenCV: configure with CREMA_OPENCV=OFF";
  const test::ScratchFolder folder;
  folder.write("a.ppm", test::ppm(1, 1, "abc"));
  const std::string list = folder.write("list.txt", (folder / "a.ppm") + " 1\n");
  expect_error(
      [&] {
        LayerRun run({.layer = text("layer { type: 'ImageData' image_data_param { source: '", list,
                                    "' } }")});
      },
      {"line 1", "a.ppm", "CREMA_OPENCV=ON"});
}

TEST(OpenCvStub, EncodedRecordsSayHowToGetIt) {
  if (test::kBuiltWithOpenCv)
    GTEST_SKIP() << "needs a build without OpenCV: configure with CREMA_OPENCV=OFF";
  Datum datum;
  datum.set_encoded(true);
  datum.set_data("BM");
  const std::string bytes = datum.SerializeAsString();
  DatumDecoder decoder(ColorMode::as_stored);
  expect_error([&] { decoder.decode({"the_key", bytes}); }, {"'the_key'", "CREMA_OPENCV=ON"});
}

TEST(LibpngStub, SaysHowToGetIt) {
  if (test::kBuiltWithLibpng)
    GTEST_SKIP() << "needs a build without libpng: configure with CREMA_LIBPNG=OFF";
  ImageDecoder decoder;
  const std::string map = test::png_file({0, 1}, 1, 2, {.color = 3, .palette = "abcdef"});
  expect_error([&] { decoder.open_labels(map); },
               {"palette", "not supported by this build", "CREMA_LIBPNG=ON", "libpng-dev"});
  if (test::kBuiltWithOpenCv) {
    EXPECT_EQ(decoder.open(map, ColorMode::color).shape(), (Shape{3, 1, 2}));
  } else {
    expect_error([&] { decoder.open(map, ColorMode::color); },
                 {"CREMA_OPENCV=ON", "CREMA_LIBPNG=ON"});
  }
}

TEST(LibgifStub, SaysHowToGetIt) {
  if (test::kBuiltWithLibgif)
    GTEST_SKIP() << "needs a build without giflib: configure with CREMA_LIBGIF=OFF";
  ImageDecoder decoder;
  expect_error([&] { decoder.open("GIF89a", ColorMode::color); },
               {"GIF is not supported by this build", "PNG or JPEG", "CREMA_LIBGIF=ON"});
}

TEST(LevelDbStub, SaysHowToGetIt) {
  if (test::kBuiltWithLevelDb)
    GTEST_SKIP() << "needs a build without LevelDB: configure with CREMA_LEVELDB=OFF";
  const test::ScratchFolder folder;
  folder.write("db/CURRENT", "MANIFEST-000002\n");
  expect_error([&] { open_database({.path = folder / "db"}); },
               {"is a LevelDB database", "CREMA_LEVELDB=ON"});
  expect_error([&] { make_database_writer(DatabaseKind::leveldb, folder / "new"); },
               {"CREMA_LEVELDB=ON", "write LMDB"});
}

TEST(AnnotationsStub, SaysHowToGetIt) {
  if (test::kBuiltWithAnnotations) GTEST_SKIP() << "needs a build with CREMA_ANNOTATIONS=OFF";
  expect_error([] { parse_voc_xml("", {}); }, {"CREMA_ANNOTATIONS=ON", "libpugixml-dev"});
  expect_error([] { parse_coco_image("", {}); }, {"CREMA_ANNOTATIONS=ON", "nlohmann-json3-dev"});
}

TEST(YamlStub, SaysHowToGetIt) {
  if (reads_yaml()) GTEST_SKIP() << "needs a build with CREMA_ANNOTATIONS=OFF";
  expect_error([] { read_class_list("data.yaml"); },
               {"'data.yaml'", "CREMA_ANNOTATIONS=ON", "libyaml-cpp-dev"});
}

TEST(TarStub, SaysHowToGetIt) {
  if (test::kBuiltWithLibarchive)
    GTEST_SKIP() << "needs a build without libarchive: configure with CREMA_LIBARCHIVE=OFF";
  expect_error([] { open_tar("a.tar", "", {}); }, {"CREMA_LIBARCHIVE=ON"});
}

TEST(HttplibStub, TheBoardSaysHowToGetIt) {
  if (test::kBuiltWithHttplib)
    GTEST_SKIP() << "needs a build without cpp-httplib: configure with CREMA_HTTPLIB=OFF";
  Board board({.folder = "runs"});
  expect_error([&] { BoardServer(board, 0); }, {"CREMA_HTTPLIB=ON", "libcpp-httplib-dev"});
}

TEST(MpiStub, SaysHowToGetItToOneOfSeveralProcesses) {
  if (test::kBuiltWithMpi)
    GTEST_SKIP() << "needs a build without MPI: configure with CREMA_MPI=OFF";
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(join_processes(), nullptr);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  expect_error([] { join_processes(); }, {"one of 2 processes", "CREMA_MPI=ON", "libopenmpi-dev"});
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace crema
