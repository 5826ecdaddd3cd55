// Nets that people published: their shapes, and the outputs of trained ones, as other
// implementations computed them. They are not in the repository: the tests read them where
// CREMA_SHARED_DIR says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "crema/net.hpp"
#include "crema/registry.hpp"
#include "model/binary_format.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/net.pb.h"
#include "support/needs.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

/// Why a net cannot be built here yet: it has layer types without a room. Empty if it can.
std::string why_not_yet(const fs::path& prototxt) {
  NetParameter net;
  read_text_proto(prototxt.string(), net);
  upgrade_net(net);
  std::string missing;
  for (const auto& layer : net.layer()) {
    const std::string& type = layer.type();
    if (Registry::instance().has(type) || missing.find(type) != std::string::npos) continue;
    missing += (missing.empty() ? "no layer " : ", ") + type;
  }
  return missing;
}

struct Published {
  std::map<std::string, Shape> blobs;
  std::map<std::string, std::vector<Shape>> params;  // by layer
};

/// Lines `blob dims...` and `PARAM layer dims...`.
Published read_shapes(const fs::path& file) {
  Published shapes;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool param = name == "PARAM";
    if (param) words >> name;
    std::vector<int64_t> dims;
    for (int64_t dim = 0; words >> dim;) dims.push_back(dim);
    if (param) {
      shapes.params[name].push_back(Shape(dims));
    } else {
      shapes.blobs[name] = Shape(dims);
    }
  }
  return shapes;
}

TEST(PublishedNets, HaveThePublishedShapes) {
  const fs::path folder = shared_path("wild");
  if (!fs::exists(folder / "shapes"))
    GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  Context context({.tune = false});
  int built = 0;
  for (const auto& entry : fs::directory_iterator(folder / "shapes")) {
    std::string path = entry.path().stem().string();  // of the prototxt, '/' written as '@'
    SCOPED_TRACE(path);
    std::ranges::replace(path, '@', '/');
    const fs::path prototxt = folder / path;
    ASSERT_TRUE(fs::exists(prototxt)) << prototxt;
    if (const std::string why = why_not_yet(prototxt); !why.empty()) {
      std::cout << "left out: " << path << ": " << why << "\n";
      continue;
    }
    const Net net(prototxt.string(), context, {.phase = Phase::test, .fuse = false});
    const Published published = read_shapes(entry.path());
    for (const NetValue& value : net.values()) {
      const auto found = published.blobs.find(value.name);
      if (found == published.blobs.end()) continue;
      EXPECT_EQ(value.shape, found->second) << value.name;
    }
    for (const auto& [name, shapes] : published.params) {
      for (const auto& layer : net.layers()) {
        if (layer->name() != name) continue;
        ASSERT_EQ(layer->params().size(), shapes.size()) << name;
        for (size_t i = 0; i < shapes.size(); ++i) {
          EXPECT_EQ(layer->params()[i]->shape(), shapes[i]) << name << " " << i;
        }
      }
    }
    ++built;
  }
  EXPECT_GE(built, 35);  // of 37: LS and Transpose are layers of one fork
}

/// A file of numpy: version 1.0, f32, in C order.
std::vector<float> read_npy(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  constexpr size_t kPrefix = 10;
  if (bytes.size() < kPrefix || bytes.find("'<f4'") == std::string::npos)
    throw Error(file.string(), " is no array of f32");
  const size_t header =
      static_cast<unsigned char>(bytes[8]) + size_t{256} * static_cast<unsigned char>(bytes[9]);
  std::vector<float> values((bytes.size() - kPrefix - header) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + kPrefix + header, values.size() * sizeof(float));
  return values;
}

using Values = std::map<std::string, std::vector<float>>;

/// What a trained net is given, and what it answered.
struct Answers {
  Values inputs, outputs;
};

/// NAME.golden: layers InputData and Blob.
Answers read_oracle(const fs::path& file) {
  NetParameter oracle;
  read_binary_proto(file.string(), oracle);
  Answers answers;
  for (const auto& layer : oracle.layer()) {
    const auto& data = layer.blobs(0).data();
    Values& values = layer.type() == "InputData" ? answers.inputs : answers.outputs;
    values[layer.name()] = {data.begin(), data.end()};
  }
  return answers;
}

/// A folder of arrays for a net: in_BLOB.npy and out_BLOB.npy, with '_' for '-' in a blob's name.
Answers read_arrays(const fs::path& folder, const fs::path& prototxt) {
  NetParameter net;
  read_text_proto(prototxt.string(), net);
  Answers answers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().stem().string();
    std::string name = file.substr(file.find('_') + 1);
    for (const auto& layer : net.layer()) {
      for (std::string top : layer.top()) {
        std::ranges::replace(top, '-', '_');
        if (top == name) name = layer.top(0);
      }
    }
    Values& values = file.starts_with("in_") ? answers.inputs : answers.outputs;
    values[name] = read_npy(entry.path());
  }
  return answers;
}

/// OpenCV gives as many detections as there may be: rows of 7 values, behind the last one zeros.
void drop_rows_of_zeros(std::vector<float>& rows) {
  const auto is_zero = [](float value) { return value == 0; };
  while (rows.size() >= 7 && std::all_of(rows.end() - 7, rows.end(), is_zero)) {
    rows.resize(rows.size() - 7);
  }
}

/// Whether prior boxes have sides with fractions of pixels. Caffe drops the fractions, OpenCV does
/// not.
bool has_fractional_priors(const fs::path& prototxt) {
  NetParameter net;
  read_text_proto(prototxt.string(), net);
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
    const auto has_fraction = [](float side) { return std::trunc(side) != side; };
    const PriorBoxParameter& boxes = layer.prior_box_param();
    return std::ranges::any_of(boxes.min_size(), has_fraction) ||
           std::ranges::any_of(boxes.max_size(), has_fraction);
  });
}

void expect_answers(const fs::path& prototxt, const std::string& weights, const Answers& answers) {
  Context context;
  NetOptions options{.phase = Phase::test};
  for (const auto& [name, values] : answers.outputs) options.keep.push_back(name);
  Net net(prototxt.string(), context, options);
  net.load_weights(weights);
  for (const auto& [name, values] : answers.inputs) {
    const Shape& declared = net.input(name).shape();
    const auto items = static_cast<int64_t>(values.size()) / declared.count(1);
    ASSERT_EQ(static_cast<int64_t>(values.size()), items * declared.count(1)) << name;
    Shape shape = declared;
    shape.set(0, items);
    net.reshape_input(name, shape);
  }
  for (const auto& [name, values] : answers.inputs) {
    std::ranges::copy(values, net.input(name).overwrite<float>());
  }
  net.forward();
  ASSERT_FALSE(answers.outputs.empty());
  for (const auto& [name, all_expected] : answers.outputs) {
    const Tensor actual = net.output(name);
    std::vector<float> expected = all_expected;
    const bool is_detections = actual.shape().rank() == 4 && actual.shape()[3] == 7;
    if (is_detections) drop_rows_of_zeros(expected);
    // By what the README of the data allows for coordinates of detections.
    const double of_coordinates = is_detections && has_fractional_priors(prototxt) ? 10 : 1;
    ASSERT_EQ(actual.count(), static_cast<int64_t>(expected.size())) << name;
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(static_cast<double>(actual.values<float>()[i]) -
                                         static_cast<double>(expected[i]));
      const double scale = is_detections && i % 7 >= 3 ? of_coordinates : 1;
      worst =
          std::max(worst, difference / scale / (1 + std::abs(static_cast<double>(expected[i]))));
    }
    EXPECT_LE(worst, 1e-4) << name;
  }
}

TEST(PublishedNets, GiveThePublishedAnswers) {
  const fs::path models = shared_path("data/models");
  if (!fs::exists(models)) GTEST_SKIP() << "needs " << models << ": set CREMA_SHARED_DIR";
  int compared = 0;
  const auto try_net = [&](const fs::path& prototxt, const fs::path& weights,
                           const Answers& answers, const std::string& name) {
    SCOPED_TRACE(name);
    std::string why = why_not_yet(prototxt);
    if (weights.extension() == ".h5" && !kBuiltWithHdf5) why = "built without HDF5";
    if (!why.empty()) {
      std::cout << "left out: " << name << ": " << why << "\n";
      return;
    }
    expect_answers(prototxt, weights.string(), answers);
    ++compared;
  };
  for (const auto& entry : fs::directory_iterator(models)) {
    const fs::path& folder = entry.path();
    const std::string name = folder.filename().string();
    for (const char* oracle : {"oracle_bvlc.golden", "oracle_opencv.golden"}) {
      if (!fs::exists(folder / oracle)) continue;
      try_net(folder / "deploy.prototxt", folder / "weights.caffemodel",
              read_oracle(folder / oracle), name + "/" + oracle);
    }
  }
  struct Reference {
    const char *net, *weights, *arrays;
  };
  for (const Reference& reference :
       {Reference{"lenet_mnist/deploy", "lenet_mnist/weights.caffemodel", "lenet_mnist/ref"},
        {"cifar10_quick/deploy", "cifar10_quick/iter_4000.caffemodel",
         "cifar10_quick/ref_iter_4000"},
        {"cifar10_quick/deploy", "cifar10_quick/iter_5000.caffemodel.h5",
         "cifar10_quick/ref_iter_5000_h5"},
        {"mtcnn/det1", "mtcnn/det1.caffemodel", "mtcnn/ref_det1"},
        {"mtcnn/det2", "mtcnn/det2.caffemodel", "mtcnn/ref_det2"},
        {"mtcnn/det3", "mtcnn/det3.caffemodel", "mtcnn/ref_det3"}}) {
    if (!fs::exists(models / reference.arrays)) continue;
    const fs::path prototxt = models / (std::string(reference.net) + ".prototxt");
    try_net(prototxt, models / reference.weights, read_arrays(models / reference.arrays, prototxt),
            reference.arrays);
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace crema::test
