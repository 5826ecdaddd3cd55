// models/cifar10_quick is the published net and schedule, in our own words.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/paths.hpp"

namespace crema {
namespace {

using google::protobuf::util::MessageDifferencer;

template <class Message>
Message read(const std::filesystem::path& path) {
  Message message;
  read_text_proto(path.string(), message);
  return message;
}

std::string differences(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  std::string report;
  MessageDifferencer differencer;
  // A default that one says is the same for the other.
  differencer.set_message_field_comparison(MessageDifferencer::EQUIVALENT);
  differencer.ReportDifferencesToString(&report);
  return differencer.Compare(a, b) ? "" : report;
}

class Cifar10Quick : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(published_))
      GTEST_SKIP() << "needs " << published_ << ": set CREMA_SHARED_DIR";
  }
  const std::filesystem::path published_ = test::shared_path("data/models/cifar10_quick");
  const std::filesystem::path ours_ = test::source_path("models/cifar10_quick");
};

TEST_F(Cifar10Quick, NetIsThePublishedOne) {
  auto ours = read<NetParameter>(ours_ / "train_test.prototxt");
  auto published = read<NetParameter>(published_ / "train_test.prototxt");
  for (NetParameter* net : {&ours, &published}) {
    for (LayerParameter& layer : *net->mutable_layer()) {
      layer.mutable_transform_param()->clear_mean_file();
      layer.mutable_data_param()->clear_source();
      ConvolutionParameter& convolution = *layer.mutable_convolution_param();
      if (convolution.stride_size() == 0) convolution.add_stride(1);  // the default
    }
  }
  EXPECT_EQ(differences(ours, published), "");
  EXPECT_EQ(ours.layer_size(), 15);
}

TEST_F(Cifar10Quick, ScheduleIsThePublishedOne) {
  for (const char* file : {"solver.prototxt", "solver_lr1.prototxt"}) {
    auto ours = read<SolverParameter>(ours_ / file);
    auto published = read<SolverParameter>(published_ / file);
    for (SolverParameter* solver : {&ours, &published}) {
      solver->clear_net();
      solver->clear_snapshot_prefix();
      solver->clear_snapshot_format();
      solver->clear_solver_mode();
    }
    EXPECT_EQ(differences(ours, published), "") << file;
  }
}

}  // namespace
}  // namespace crema
