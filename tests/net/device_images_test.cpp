// Batches of bytes that become the values of a net on a device: the same bits as on the host.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "support/database.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::ScratchFolder;

class DeviceImages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
    test::Records records;
    for (int i = 0; i < 10; ++i) {
      char key[16];
      std::snprintf(key, sizeof key, "%08d", i);
      records.emplace_back(key, test::byte_datum(3, 9, 11, i % 3, 17 * i).SerializeAsString());
    }
    test::write_database(folder_ / "db", records);
  }

  NetParameter param(const std::string& transform) const {
    return test::net_param(
        text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
             "transform_param { ",
             transform, " } data_param { source: '", folder_ / "db",
             "' batch_size: 4 } } "
             "layer { name: 'prob' type: 'Softmax' bottom: 'data' top: 'prob' }"));
  }

  ScratchFolder folder_;
};

TEST_F(DeviceImages, HaveTheBitsOfTheHost) {
  for (const std::string transform :
       {"", "scale: 0.0078125", "mean_value: 104.25 scale: 0.017",
        "mean_value: 104 mean_value: 117 mean_value: 123 mirror: true crop_size: 7",
        "crop_h: 5 crop_w: 8 mirror: true scale: 0.3"}) {
    SCOPED_TRACE(transform);
    for (const Phase phase : {Phase::train, Phase::test}) {
      auto owned = std::make_unique<FakeDevice>();
      FakeDevice* const device = owned.get();
      Context on_device({.threads = 1}, std::move(owned)), context({.threads = 1});
      const NetOptions options{.phase = phase, .backward = NetOptions::Backward::no};
      Net net(param(transform), on_device, options), on_cpu(param(transform), context, options);
      for (int pass = 0; pass < 6; ++pass) {
        net.forward();
        on_cpu.forward();
        for (const char* name : {"data", "label"}) {
          const Tensor found = net.output(name), expected = on_cpu.output(name);
          ASSERT_EQ(found.shape(), expected.shape());
          for (int64_t i = 0; i < found.count(); ++i)
            ASSERT_EQ(found.at(i), expected.at(i)) << name << " " << i;
        }
      }
      // Bytes went there, not floats: of images, and of labels.
      const size_t floats = static_cast<size_t>(net.blob("data").count()) * sizeof(float);
      EXPECT_LT(device->bytes_up, 6 * floats);
    }
  }
}

}  // namespace
}  // namespace crema
