// What the tests of Data share: the layer outside of a net, and databases for it.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "layers/data/data.hpp"
#include "proto/layer.pb.h"
#include "support/database.hpp"

namespace crema::test {

/// A Data layer with two tops, run as a net would.
class Source {
 public:
  explicit Source(const std::string& settings, ContextOptions options = {},
                  Phase phase = Phase::train, DType dtype = DType::f32, int tops = 2)
      : context_(std::move(options)) {
    LayerParameter param;
    if (!google::protobuf::TextFormat::ParseFromString(settings, &param))
      throw Error("no layer: ", settings);
    param.set_name("the_data");
    param.set_type("Data");
    param.set_phase(phase == Phase::train ? TRAIN : TEST);
    state_.seed = context_.seed();
    layer_ = std::make_unique<DataLayer>(LayerInit{
        .param = param, .context = context_, .run = state_, .phase = phase, .dtype = dtype});
    for (int i = 0; i < tops; ++i) {
      blobs_.push_back(std::make_unique<Blob>(Shape{0}, dtype));
      tops_.push_back(blobs_.back().get());
    }
    layer_->setup({}, tops_);
    layer_->reshape({}, tops_);
  }

  DataLayer& layer() { return *layer_; }
  Context& context() { return context_; }
  RunState& state() { return state_; }
  const Tensor& data() const { return tops_[0]->data; }
  const Tensor& label() const { return tops_[1]->data; }

  void forward() { layer_->forward_cpu({}, tops_); }
  /// Labels of the next `batches` batches.
  std::vector<int> labels(int batches) {
    std::vector<int> all;
    for (int b = 0; b < batches; ++b) {
      forward();
      for (int64_t i = 0; i < label().count(); ++i) all.push_back(static_cast<int>(label().at(i)));
    }
    return all;
  }
  /// All values of the next `batches` batches.
  std::vector<float> values(int batches) {
    std::vector<float> all;
    for (int b = 0; b < batches; ++b) {
      forward();
      const auto batch = data().values<float>();
      all.insert(all.end(), batch.begin(), batch.end());
    }
    return all;
  }

 private:
  Context context_;
  RunState state_;
  std::unique_ptr<DataLayer> layer_;
  std::vector<std::unique_ptr<Blob>> blobs_;
  std::vector<Blob*> tops_;
};

class DataLayerTest : public ::testing::Test {
 protected:
  std::string database(int count, int channels = 1, int height = 2, int width = 3) {
    write_counting_database(folder_ / "db", count, channels, height, width);
    return "source: '" + (folder_ / "db") + "' backend: LMDB ";
  }
  static std::string data_param(const std::string& text, const std::string& transform = "") {
    return "data_param { " + text + " } transform_param { " + transform + " }";
  }
  ScratchFolder folder_;
};

}  // namespace crema::test
