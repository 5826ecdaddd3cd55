// An Error about one sample of a batch names the record that it came from, and so does the warning
// of a loss that is not finite.
#include <gtest/gtest.h>

#include <cmath>

#include "core/data_source.hpp"
#include "crema/registry.hpp"
#include "net/not_finite.hpp"
#include "proto/layer.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;

/// Gives (4, 3) zeros, with a NaN in record 2 where its name says "nan"; or, where its name says
/// "labels", (4) labels that no classifier has.
class RecordsLayer : public Layer, public DataSource {
 public:
  using Layer::Layer;
  const DataSource* data_source() const override { return this; }
  Arity arity() const override { return {0, 0, 1, 1}; }
  void reshape(Blobs, Blobs top) override {
    top[0]->reshape(gives_labels() ? Shape{4} : Shape{4, 3});
  }
  void forward_cpu(Blobs, Blobs top) override {
    top[0]->data.fill(gives_labels() ? 9 : 0);
    if (name() == "nan") top[0]->data.change<float>()[7] = NAN;
  }

  RecordCursor cursor() const override { return {}; }
  void set_cursor(const RecordCursor&) override {}
  void restart() override {}
  int64_t records_per_batch() const override { return 4; }
  double take_wait_seconds() override { return 0; }
  std::string record_key(int64_t index) const override {
    if (name() == "lost labels") throw Error("cannot read the record");
    return text(name(), "@", index);
  }

 private:
  bool gives_labels() const { return name().find("labels") != std::string::npos; }
};

std::string error_of(const std::string& text) {
  static const bool registered = (Registry::instance().add<RecordsLayer>("TestRecords"), true);
  EXPECT_TRUE(registered);
  Context context;
  Net net(net_param(text), context, {.phase = Phase::train});
  try {
    net.forward();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string kImages = R"(layer { name: "images" type: "TestRecords" top: "images" })";

TEST(Record, IsThatOfTheLabelsSource) {
  const std::string error = error_of(kImages + R"(
layer { name: "labels" type: "TestRecords" top: "labels" }
layer { name: "copy" type: "Split" bottom: "labels" top: "l" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "images" bottom: "l" top: "loss" })");
  EXPECT_NE(error.find("labels@0"), std::string::npos) << error;
  EXPECT_EQ(error.find("images@"), std::string::npos) << error;
}

TEST(Record, ThatCannotBeReadDoesNotHideTheError) {
  const std::string error = error_of(kImages + R"(
layer { name: "lost labels" type: "TestRecords" top: "l" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "images" bottom: "l" top: "loss" })");
  EXPECT_NE(error.find("label 9"), std::string::npos) << error;
  EXPECT_EQ(error.find("cannot read"), std::string::npos) << error;
}

// The labels of most layers are bottom 1, those of this one bottom 2.
TEST(Record, IsThatOfTheLabelsWhereverTheyAre) {
  const std::string error = error_of(kImages + R"(
layer { name: "others" type: "TestRecords" top: "others" }
layer { name: "labels" type: "TestRecords" top: "l" }
layer { name: "loss" type: "ContrastiveLoss" bottom: "images" bottom: "others" bottom: "l" top: "loss" })");
  EXPECT_NE(error.find("(record 'labels@0')"), std::string::npos) << error;
}

TEST(Record, IsTheKeyInTheDatabase) {
  const test::ScratchFolder folder;
  test::write_counting_database(folder / "db", 10);
  const std::string error = error_of(
      text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 8 "
           "backend: LMDB source: '",
           folder / "db", "' } }",
           "layer { name: 'loss' type: 'HingeLoss' bottom: 'data' bottom: 'label' top: 'loss' }"));
  EXPECT_NE(error.find("label 6 at position 6 of the batch is outside [0, 6)"), std::string::npos)
      << error;
  EXPECT_NE(error.find("(record '00000006')"), std::string::npos) << error;
}

TEST(Record, IsNotGuessedWhereTheLabelsHaveNoSource) {
  const std::string error = error_of(kImages + R"(
layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 4 } } }
layer { name: "minus" type: "Concat" bottom: "l" top: "m" concat_param { axis: 0 } }
layer { name: "bad" type: "Scale" bottom: "m" top: "b" param { lr_mult: 0 } param { lr_mult: 0 }
        scale_param { axis: 0 num_axes: 0 filler { value: 0 } bias_term: true bias_filler { value: -1 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "images" bottom: "b" top: "loss" })");
  EXPECT_NE(error.find("label -1"), std::string::npos) << error;
  EXPECT_EQ(error.find("images@"), std::string::npos) << error;
}

TEST(Record, IsNotGuessedWhereBatchesWereJoined) {
  const std::string error = error_of(R"(
layer { name: "labels" type: "TestRecords" top: "a" }
layer { name: "labels2" type: "TestRecords" top: "b" }
layer { name: "join" type: "Concat" bottom: "a" bottom: "b" top: "l" concat_param { axis: 0 } }
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 8 dim: 3 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "l" top: "loss" })");
  EXPECT_NE(error.find("label 9"), std::string::npos) << error;
  EXPECT_EQ(error.find("labels@"), std::string::npos) << error;
}

/// What the log says in `passes` forward passes of a net with these inputs and layers.
struct Told {
  std::vector<std::string> warnings;
  Context context{{.logger = [this](Severity severity, const std::string& text) {
    if (severity == Severity::warning) warnings.push_back(text);
  }}};
  Net net;
  explicit Told(const std::string& text) : net(net_param(text), context) {}
};

TEST(LossNotFinite, IsToldWithTheValueAndItsRecord) {
  error_of(kImages);  // registers the type
  Told told(R"(
layer { name: "nan" type: "TestRecords" top: "x" }
layer { name: "double" type: "Power" bottom: "x" top: "y" power_param { scale: 2 } }
layer { name: "z" type: "Input" top: "z" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "far" type: "EuclideanLoss" bottom: "y" bottom: "z" top: "distance" })");
  for (int pass = 0; pass < 3; ++pass) EXPECT_TRUE(std::isnan(told.net.forward()));
  ASSERT_EQ(told.warnings.size(), 1U) << "once, not in each pass";
  EXPECT_EQ(told.warnings[0],
            "layer 'far' (EuclideanLoss): the loss 'distance' is nan: its bottom 'y' (4x3) is nan "
            "at (2, 1) (record 'nan@2')");
}

// Of one failure, the one who looks at the loss tells, and no warning beside it.
TEST(LossNotFinite, IsToldOnceByTheOneWhoStops) {
  error_of(kImages);  // registers the type
  Told told(R"(
layer { name: "nan" type: "TestRecords" top: "x" }
layer { name: "z" type: "Input" top: "z" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "root" type: "Power" bottom: "z" top: "y" power_param { power: 0.5 } }
layer { name: "far" type: "EuclideanLoss" bottom: "x" bottom: "y" top: "distance" })");
  {
    const LooksAtLosses looks(told.net);
    const double loss = told.net.forward();
    EXPECT_TRUE(std::isnan(loss));
    expect_error([&] { throw_not_finite(told.net, 7, loss); },
                 {"the loss is nan at iteration 7: the first blob with a value that is not finite "
                  "is 'x' of layer 'nan', which is nan at (2, 1) (record 'nan@2'); lower base_lr"});
    expect_error([&] { throw_not_finite(told.net, 7, -loss); }, {"the loss is nan at"});
  }
  EXPECT_TRUE(told.warnings.empty()) << told.warnings[0];
  told.net.forward();
  EXPECT_EQ(told.warnings.size(), 1U) << "nobody looks any more";
}

TEST(LossNotFinite, NamesTheRecordBehindOtherLayersToo) {
  error_of(kImages);  // registers the type
  Told told(R"(
layer { name: "images" type: "TestRecords" top: "x" }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "large" type: "Power" bottom: "x" top: "h" power_param { shift: 1e30 } }
layer { name: "more" type: "Power" bottom: "h" top: "y" power_param { scale: 1e30 } }
layer { name: "far" type: "EuclideanLoss" bottom: "y" bottom: "b" top: "distance" })");
  const LooksAtLosses looks(told.net);
  const double loss = told.net.forward();
  expect_error([&] { throw_not_finite(told.net, 0, loss); },
               {"'y' of layer 'more', which is inf at (0, 0)", "(record 'images@0')"});
}

TEST(LossNotFinite, IsToldOfEveryLoss) {
  const char* const score = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "h" type: "Input" top: "h" input_param { shape { dim: 3 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "op" top: "loss" bottom: "x" )";
  for (const std::string more :
       {"type: 'SoftmaxWithLoss' bottom: 'label'", "type: 'HingeLoss' bottom: 'label'",
        "type: 'MultinomialLogisticLoss' bottom: 'label'",
        "type: 'InfogainLoss' bottom: 'label' bottom: 'h'", "type: 'EuclideanLoss' bottom: 'y'",
        "type: 'SigmoidCrossEntropyLoss' bottom: 'y'",
        "type: 'ContrastiveLoss' bottom: 'y' bottom: 'label'"}) {
    SCOPED_TRACE(more);
    Told told(text(score, more, " }"));
    test::fill_inputs(told.net, 0.1, 1, 2);
    EXPECT_TRUE(std::isfinite(told.net.forward()));
    EXPECT_TRUE(told.warnings.empty());
    // In the score of the label, which all of these losses read.
    const auto label = static_cast<int64_t>(told.net.input("label").at(3));
    for (size_t times = 1; times <= 2; ++times) {
      told.net.input("x").change<float>()[9 + label] = NAN;
      told.net.forward();
      ASSERT_EQ(told.warnings.size(), times) << "again, after a loss that was finite";
      EXPECT_NE(told.warnings[0].find(text("'x' (4x3) is nan at (3, ", label, ")")),
                std::string::npos)
          << told.warnings[0];
      told.net.input("x").change<float>()[9 + label] = 1;
      told.net.forward();
    }
  }
}

TEST(LossNotFinite, OfFiniteBottomsIsToldToo) {
  Told told(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "far" type: "EuclideanLoss" bottom: "x" bottom: "y" top: "l" })");
  told.net.input("x").fill(1e30);
  told.net.input("y").fill(0);
  told.net.forward();
  ASSERT_EQ(told.warnings.size(), 1U);
  EXPECT_NE(told.warnings[0].find("is inf: its bottoms are finite"), std::string::npos)
      << told.warnings[0];
}

}  // namespace
}  // namespace crema
