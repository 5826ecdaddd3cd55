// Weights that stay in their file until they are copied to where they belong.
#include "model/stored_weights.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/binary_format.hpp"
#include "model/blob_message.hpp"
#include "model/upgrade/upgrade.hpp"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

constexpr int kMany = 5000;  // values that stay in the file

void fill(BlobProto& blob, int count, float first) {
  blob.mutable_shape()->add_dim(count);
  for (int i = 0; i < count; ++i) blob.add_data(first + static_cast<float>(i));
}

NetParameter some_net() {
  NetParameter net;
  net.set_name("net");
  for (int l = 0; l < 3; ++l) {
    LayerParameter& layer = *net.add_layer();
    layer.set_name("ip" + std::to_string(l));
    layer.set_type("InnerProduct");
    fill(*layer.add_blobs(), kMany + l, static_cast<float>(1000 * l));
    fill(*layer.add_blobs(), 3, 7);
  }
  return net;
}

std::vector<float> values_of(const StoredWeights& stored, const BlobProto& blob) {
  Tensor values(Shape{stored.count(blob)});
  stored.load(blob, values);
  return {values.values<float>().begin(), values.values<float>().end()};
}

class StoredWeightsTest : public ::testing::Test {
 protected:
  std::unique_ptr<StoredWeights> stored(const NetParameter& net) {
    write_binary_proto_atomically(file_, net);
    return StoredWeights::open(file_);
  }
  std::string bytes() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool opens(const std::string& content) const {
    return StoredWeights::open(folder_.write("other.caffemodel", content)) != nullptr;
  }

  TempFolder folder_;
  const std::string file_ = folder_.path("net.caffemodel");
};

TEST_F(StoredWeightsTest, HaveTheValuesOfTheFile) {
  const NetParameter net = some_net();
  const auto weights = stored(net);
  ASSERT_NE(weights, nullptr);
  weights->check();
  ASSERT_EQ(weights->message().layer_size(), net.layer_size());
  for (int l = 0; l < net.layer_size(); ++l) {
    EXPECT_EQ(weights->message().layer(l).name(), net.layer(l).name());
    EXPECT_EQ(weights->message().layer(l).blobs(0).data_size(), 0) << "read the values at once";
    for (int b = 0; b < 2; ++b) {
      // Copies of a blob know its values, too.
      const BlobProto blob = weights->message().layer(l).blobs(b);
      const auto& data = net.layer(l).blobs(b).data();
      EXPECT_EQ(blob_shape(blob), blob_shape(net.layer(l).blobs(b)));
      EXPECT_EQ(values_of(*weights, blob), std::vector<float>(data.begin(), data.end()));
    }
  }
}

TEST_F(StoredWeightsTest, BecomeF64) {
  const auto weights = stored(some_net());
  ASSERT_NE(weights, nullptr);
  Tensor values(Shape{kMany + 2}, DType::f64);
  weights->load(weights->message().layer(2).blobs(0), values);
  EXPECT_EQ(values.at(0), 2000);
  EXPECT_EQ(values.at(kMany + 1), 2000 + kMany + 1);
}

TEST_F(StoredWeightsTest, OfOldLayersGoAlongWithTheUpgrade) {
  NetParameter net;
  V1LayerParameter& layer = *net.add_layers();
  layer.set_name("old");
  fill(*layer.add_blobs(), kMany, 3);
  const auto weights = stored(net);
  ASSERT_NE(weights, nullptr);
  upgrade_weights(weights->message());
  ASSERT_EQ(weights->message().layer_size(), 1);
  const std::vector<float> values = values_of(*weights, weights->message().layer(0).blobs(0));
  ASSERT_EQ(values.size(), static_cast<size_t>(kMany));
  EXPECT_EQ(values[10], 13);
}

TEST_F(StoredWeightsTest, LeaveGradientsOut) {
  NetParameter net = some_net();
  BlobProto& blob = *net.mutable_layer(1)->mutable_blobs(0);
  for (int i = 0; i < blob.data_size(); ++i) blob.add_diff(-1);
  const auto weights = stored(net);
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(weights->message().layer(1).blobs(0).diff_size(), 0);
  EXPECT_EQ(values_of(*weights, weights->message().layer(1).blobs(0))[1], 1001);
}

// read_weights() reads these, or says what is wrong with them.
TEST_F(StoredWeightsTest, AreNotMadeOfOtherFiles) {
  EXPECT_EQ(StoredWeights::open(folder_.path("none.caffemodel")), nullptr);
  EXPECT_FALSE(opens(""));
  EXPECT_FALSE(opens(std::string(10'000, 'x')));
  NetParameter small;
  fill(*small.add_layer()->add_blobs(), 10, 0);
  EXPECT_EQ(stored(small), nullptr);
  const NetParameter net = some_net();
  ASSERT_NE(stored(net), nullptr);
  const std::string whole = bytes();
  EXPECT_TRUE(opens(whole));
  for (const size_t size : {whole.size() - 1, whole.size() - 13, whole.size() / 2})
    EXPECT_FALSE(opens(whole.substr(0, size))) << size;
  // A file of another program has no checksum.
  EXPECT_TRUE(opens(net.SerializeAsString()));
  EXPECT_FALSE(opens(net.SerializeAsString() + "\x07"));
}

// Lists that follow each other in a blob are one; of f32 and f64, one counts.
TEST_F(StoredWeightsTest, AreNotMadeOfListsInPieces) {
  NetParameter more;
  fill(*more.add_layer()->add_blobs(), kMany, 0);
  const std::string blob = more.layer(0).blobs(0).SerializeAsString();
  BlobProto twice;
  ASSERT_TRUE(twice.ParseFromString(blob + blob));
  ASSERT_EQ(twice.data_size(), 2 * kMany);
  const auto in_net = [](const std::string& content) {
    std::string bytes;
    const auto add = [&bytes](int field, const std::string& inside) {
      for (size_t tag = static_cast<size_t>(field) << 3 | 2; true; tag >>= 7) {
        bytes += static_cast<char>(tag > 127 ? (tag & 127) | 128 : tag);
        if (tag <= 127) break;
      }
      for (size_t size = inside.size(); true; size >>= 7) {
        bytes += static_cast<char>(size > 127 ? (size & 127) | 128 : size);
        if (size <= 127) break;
      }
      bytes += inside;
    };
    add(LayerParameter::kBlobsFieldNumber, content);
    const std::string of_layer = std::exchange(bytes, "");
    add(NetParameter::kLayerFieldNumber, of_layer);
    return bytes;
  };
  EXPECT_TRUE(opens(in_net(blob)));
  EXPECT_FALSE(opens(in_net(blob + blob)));
  BlobProto doubles;
  doubles.add_double_data(1);
  EXPECT_FALSE(opens(in_net(blob + doubles.SerializeAsString())));
  EXPECT_FALSE(opens(in_net(doubles.SerializeAsString() + blob)));
}

TEST_F(StoredWeightsTest, KnowOfAChangedByte) {
  ASSERT_NE(stored(some_net()), nullptr);
  std::string content = bytes();
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  const auto weights = StoredWeights::open(folder_.write("changed.caffemodel", content));
  ASSERT_NE(weights, nullptr);
  expect_error([&] { weights->check(); }, {"changed.caffemodel", "do not fit its checksum"});
}

}  // namespace
}  // namespace crema
