// A published model reaches its published accuracy: its files as they are, by `crema test`.
#include <cstdlib>

#include "support/database.hpp"
#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;
using namespace crema;
using namespace crema::test;

class PublishedModelCliTest : public CliTest {
 protected:
  /// The test images of CIFAR-10 as a database: records of a label and 3x32x32 bytes.
  void write_cifar10(const fs::path& compressed, const std::string& database) const {
    const std::string raw = path("test_batch.bin");
    ASSERT_EQ(std::system(("gzip -dc " + compressed.string() + " > " + raw).c_str()), 0);
    const std::string bytes = read_file(raw);
    constexpr size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels, kRecords = 10000;
    ASSERT_EQ(bytes.size(), kRecords * kRecord);
    Datum datum;
    datum.set_channels(3);
    datum.set_height(32);
    datum.set_width(32);
    Records records;
    for (size_t i = 0; i < kRecords; ++i) {
      datum.set_label(bytes[i * kRecord]);
      datum.set_data(bytes.substr(i * kRecord + 1, kPixels));
      std::string key = std::to_string(i);
      key.insert(0, 5 - key.size(), '0');
      records.emplace_back(key, datum.SerializeAsString());
    }
    write_database(database, records);
  }
};

TEST_F(PublishedModelCliTest, Resnet20OnCifar10) {
  const fs::path model = shared_path("data/models/resnet20_cifar10");
  const fs::path cifar = shared_path("data/cifar10");
  const fs::path images = cifar / "test_batch.bin.gz";
  for (const fs::path& needed : {model / "train_val.prototxt", images}) {
    if (!fs::exists(needed)) GTEST_SKIP() << "needs " << needed << ": set CREMA_SHARED_DIR";
  }
  // The net's paths are ../mean.binaryproto and ../cifar10_test_lmdb.
  fs::create_directory(path("resnet20"));
  fs::copy_file(cifar / "mean.binaryproto", path("mean.binaryproto"));
  write_cifar10(images, path("cifar10_test_lmdb"));
  const Output output =
      run("test --json --iterations 100 --model " + (model / "train_val.prototxt").string() +
              " --weights " + (model / "weights.caffemodel").string() + " 2>/dev/null",
          "cd " + path("resnet20") + " && " CREMA_TOOL);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("\"positions\": 10000, ")) << output.text;
  const std::string field = "\"undecided\": 0, \"accuracy\": ";
  const size_t at = output.text.find(field);
  ASSERT_NE(at, std::string::npos) << output.text;
  EXPECT_NEAR(std::strtod(output.text.c_str() + at + field.size(), nullptr), 0.918, 0.0005)
      << output.text;
}

}  // namespace
