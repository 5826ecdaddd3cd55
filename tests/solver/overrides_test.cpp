// Values in place of those in the files (SolverOptions::set), and layers that do not learn
// (SolverOptions::freeze).
#include "solver/overrides.hpp"

#include <gtest/gtest.h>

#include "model/set_value.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/snapshot_files.hpp"
#include "solver/snapshot_run.hpp"
#include "solver/update_rule.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::params_of;

TEST(SetValue, SetsEachKindOfField) {
  SolverParameter solver;
  EXPECT_EQ(set_value(solver, "base_lr", "0.01"), "none");
  EXPECT_FLOAT_EQ(solver.base_lr(), 0.01F);
  EXPECT_EQ(set_value(solver, "base_lr", "1e-3"), "0.01");
  EXPECT_EQ(set_value(solver, "iter_size", "4"), "the default 1");
  EXPECT_EQ(set_value(solver, "snapshot_format", "HDF5"), "the default BINARYPROTO");
  EXPECT_EQ(solver.snapshot_format(), SolverParameter::HDF5);
  set_value(solver, "amsgrad", "true");
  EXPECT_TRUE(solver.amsgrad());
  set_value(solver, "lr_policy", "'step'");
  EXPECT_EQ(solver.lr_policy(), "step");
  EXPECT_EQ(set_value(solver, "stepvalue", "10,20"), "none");
  EXPECT_EQ(set_value(solver, "stepvalue[2]", "30"), "none");
  EXPECT_EQ(set_value(solver, "stepvalue[0]", "5"), "10");
  EXPECT_EQ(set_value(solver, "stepvalue", "1, 2"), "5,20,30");
  EXPECT_EQ(solver.stepvalue_size(), 2);
  LayerParameter layer;
  set_value(layer, "convolution_param.weight_filler", "{ type: 'xavier' }");
  EXPECT_EQ(layer.convolution_param().weight_filler().type(), "xavier");
  set_value(layer, "convolution_param.kernel_size", "3");
  EXPECT_EQ(layer.convolution_param().kernel_size(0), 3U);
  set_value(layer, "param[0].lr_mult", "0");
  set_value(layer, "param[1].lr_mult", "2");
  EXPECT_EQ(layer.param(1).lr_mult(), 2);
}

TEST(SetValue, SaysWhatIsWrong) {
  SolverParameter solver;
  LayerParameter layer;
  expect_error([&] { set_value(solver, "max_itr", "1"); },
               {"SolverParameter has no field 'max_itr'", "did you mean 'max_iter'"});
  expect_error([&] { set_value(solver, "max_iter", "1.5"); },
               {"max_iter cannot be '1.5'; give a whole number"});
  expect_error([&] { set_value(solver, "amsgrad", "yes"); }, {"true or false"});
  expect_error([&] { set_value(solver, "snapshot_format", "HDF"); }, {"HDF5"});
  expect_error([&] { set_value(solver, "base_lr[0]", "1"); }, {"base_lr is one value"});
  expect_error([&] { set_value(solver, "stepvalue[1]", "1"); }, {"leaves a gap", "[0]"});
  expect_error([&] { set_value(solver, "stepvalue[x]", "1"); }, {"no index"});
  expect_error([&] { set_value(solver, "base_lr.x", "1"); }, {"base_lr has no fields"});
  expect_error([&] { set_value(layer, "param.lr_mult", "1"); }, {"param is a list", "param[0]"});
  expect_error([&] { set_value(layer, "param[0]", "{ lr_mul: 1 }"); }, {"lr_mul"});
}

class OverridesTest : public test::SnapshotRun {
 protected:
  static std::vector<std::string> apply(Overrides& overrides, NetParameter& net, Phase phase) {
    SourceMap unknown;
    return overrides.apply(net, unknown, {.phase = phase});
  }
  static NetParameter net() {
    NetParameter net;
    parse_text_proto(R"(
layer { name: "data" type: "Data" include { phase: TRAIN } data_param { source: "a" batch_size: 64 } }
layer { name: "data" type: "Data" include { phase: TEST } data_param { source: "b" batch_size: 100 } }
layer { name: "a.b" type: "Convolution" convolution_param { num_output: 4 } }
layer { name: "a" type: "Deconvolution" convolution_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" })",
                     "net", net);
    return net;
  }
};

TEST_F(OverridesTest, FindLayersByNameAndFieldsInTheirSettings) {
  Overrides overrides({"net.data.batch_size=32", "net.a.b.num_output=6", "net.a.num_output=7",
                       "net.data.scale=0.5", "net.loss.ignore_label=3", "net.force_backward=true",
                       "net.a.b.convolution_param.pad=1", "train_net.loss.loss_weight=2"});
  NetParameter train = net(), test = net();
  EXPECT_EQ(apply(overrides, train, Phase::train)[0], "net.data.batch_size=32 in place of 64");
  EXPECT_EQ(apply(overrides, test, Phase::test)[0], "net.data.batch_size=32 in place of 100");
  EXPECT_NO_THROW(overrides.check_found());
  EXPECT_EQ(train.layer(0).data_param().batch_size(), 32U);
  EXPECT_EQ(train.layer(1).data_param().batch_size(), 100U) << "not of this net";
  EXPECT_EQ(test.layer(1).data_param().batch_size(), 32U);
  EXPECT_EQ(train.layer(0).transform_param().scale(), 0.5F) << "not the old field of data_param";
  EXPECT_EQ(train.layer(2).convolution_param().num_output(), 6U);
  EXPECT_EQ(train.layer(2).convolution_param().pad(0), 1U);
  EXPECT_EQ(train.layer(3).convolution_param().num_output(), 7U);
  EXPECT_EQ(train.layer(4).loss_param().ignore_label(), 3);
  EXPECT_TRUE(train.force_backward());
  EXPECT_EQ(train.layer(4).loss_weight_size(), 1);
  EXPECT_EQ(test.layer(4).loss_weight_size(), 0);
}

TEST_F(OverridesTest, ALayerThatNoNetHasIsAnError) {
  Overrides overrides({"net.dta.batch_size=32"});
  NetParameter train = net();
  apply(overrides, train, Phase::train);
  expect_error([&] { overrides.check_found(); },
               {"setting 'net.dta.batch_size=32'", "no layer 'dta'", "did you mean 'data'"});
}

TEST_F(OverridesTest, WithoutANameThatIsNearTheLayersAreListed) {
  Overrides overrides({"net.mnist.batch_size=32"});
  NetParameter train = net();
  apply(overrides, train, Phase::train);
  expect_error([&] { overrides.check_found(); },
               {"no layer 'mnist'; its layers are data, a.b, a, loss"});
}

TEST_F(OverridesTest, ASettingThatALaterOneUndoesIsSaid) {
  EXPECT_EQ(Overrides({"max_epochs=2", "base_lr=1", "max_iter=100"}).undone(),
            std::vector<std::string>{"setting 'max_iter=100' undoes the setting 'max_epochs=2' "
                                     "before it; give one of them"});
  EXPECT_TRUE(Overrides({"max_iter=10", "max_iter=100"}).undone().empty());
}

TEST_F(OverridesTest, AValueThatStaysIsSaidToStay) {
  SolverParameter solver;
  solver.set_max_iter(1000);
  SourceMap unknown;
  EXPECT_EQ(Overrides({"max_iter=1000"}).apply(solver, unknown)[0],
            "max_iter=1000, as it is in the file");
  expect_error([&] { set_value(solver, "base_rate", "1"); }, {"did you mean 'base_lr'"});
}

TEST_F(OverridesTest, ALayerThatItsRulesLeaveOutIsAnError) {
  Overrides overrides({"train_net.top.num_output=32"});
  NetParameter train = net();
  parse_text_proto("name: 'top' type: 'InnerProduct' include { phase: TEST }", "layer",
                   *train.add_layer());
  apply(overrides, train, Phase::train);
  expect_error([&] { overrides.check_found(); },
               {"setting 'train_net.top.num_output=32'", "layer 'top'", "the training net"});
}

TEST_F(OverridesTest, ErrorsOfTheLayerNameTheSetting) {
  const std::string file = folder_.write("net.prototxt", R"(
layer { name: "data" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 4 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "y" top: "l" })");
  SolverParameter solver = solver_param("max_iter: 7");
  solver.clear_net_param();
  solver.set_net(file);
  Context context;
  SolverOptions options;
  options.set = {"net.ip.num_output=0"};
  expect_error([&] { Solver(solver, context, options); },
               {"net.prototxt:3:1, setting net.ip.num_output=0: ", "layer 'ip'"});
}

TEST_F(OverridesTest, ASolverTakesThemAndSavesThem) {
  Context context;
  SolverOptions options;
  options.set = {"base_lr=0.5", "net.ip.num_output=6", "max_iter=2", "snapshot_format=HDF5"};
  const bool hdf5 = test::kBuiltWithHdf5;
  if (!hdf5) options.set.pop_back();
  Solver solver(solver_param("max_iter: 7"), context, options);
  EXPECT_EQ(solver.max_iterations(), 2);
  EXPECT_FLOAT_EQ(static_cast<float>(solver.rate()), 0.5F);
  EXPECT_EQ(solver.net().params().segments()[0].count, 18);
  solver.solve();
  NetParameter weights;
  read_weights(file(2, hdf5 ? ".caffemodel.h5" : ".caffemodel"), weights);
  EXPECT_EQ(std::vector<std::string>(weights.origin().setting().begin(),
                                     weights.origin().setting().end()),
            options.set);
  EXPECT_EQ(weights.origin().iteration(), 2);
  options.set = {"base_lr=-1"};
  expect_error([&] { Solver(solver_param("max_iter: 7"), context, options); },
               {"setting base_lr=-1: base_lr -1 must not be negative"});
}

class FreezeTest : public test::SnapshotRun {
 protected:
  SolverParameter deep() {
    SolverParameter param;
    parse_text_proto(
        text(
            "net_param { name: 'deep' layer { name: 'x' type: 'DummyData' top: 'x' top: 'label' "
            "dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "
            "'gaussian' } data_filler { value: 1 } } } ",
            layer("a", "x"), layer("b", "a"), layer("c", "b"),
            "layer { name: 'accuracy' type: 'Accuracy' bottom: 'c' bottom: 'label' top: 'accuracy' "
            "include { phase: TEST } } "
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' top: 'loss' "
            "} } base_lr: 0.1 lr_policy: 'fixed' max_iter: 3 snapshot_prefix: '",
            folder_ / "s", "'"),
        "solver.prototxt", param);
    return param;
  }
  static std::string layer(const std::string& name, const std::string& bottom) {
    return text("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                name,
                "' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } ");
  }
  /// Which parameters of the layer changed in a training.
  std::vector<std::string> changed(const std::vector<std::string>& freeze,
                                   int* backward = nullptr) {
    Context context;
    SolverOptions options;
    options.freeze = freeze;
    Solver solver(deep(), context, options);
    std::map<std::string, std::vector<float>> before;
    const auto values = [](const ParameterArena::Segment& segment) {
      const Tensor& data = segment.parameter->data;
      std::vector<float> all;
      for (int64_t i = 0; i < data.count(); ++i) all.push_back(static_cast<float>(data.at(i)));
      return all;
    };
    for (const auto& segment : solver.net().params().segments())
      before[text(segment.layer, segment.index)] = values(segment);
    solver.solve();
    std::vector<std::string> found;
    for (const auto& segment : solver.net().params().segments()) {
      if (values(segment) != before[text(segment.layer, segment.index)])
        found.push_back(text(segment.layer, segment.index));
    }
    if (backward != nullptr) {
      *backward = 0;
      for (const NetStep& step : solver.net().steps()) *backward += step.backward;
    }
    return found;
  }
};

TEST_F(FreezeTest, ALayerAndAllBeforeItKeepTheirValues) {
  using Names = std::vector<std::string>;
  int all = 0, some = 0;
  EXPECT_EQ(changed({}, &all), (Names{"a0", "a1", "b0", "b1", "c0", "c1"}));
  EXPECT_EQ(changed({"b"}, &some), (Names{"c0", "c1"}));
  EXPECT_EQ(all - some, 2) << "two layers less run backward";
  EXPECT_EQ(changed({"/b|c/"}), (Names{"a0", "a1"}));
  EXPECT_EQ(changed({"/b/", "a"}), (Names{"c0", "c1"}));
}

TEST_F(FreezeTest, WhatNamesNoLayerIsAnError) {
  EXPECT_NO_THROW(changed({"a"}));
  expect_error([&] { changed({"bb"}); }, {"freeze 'bb'", "no layer of this name"});
  expect_error([&] { changed({"accuracy"}); },
               {"no layer of this name; layer 'accuracy' is not in this net", "phase: TEST"});
  expect_error([&] { changed({"/acc.*/"}); },
               {"matches the whole name of no layer; layer 'accuracy' is not in this net"});
  expect_error([&] { changed({"/d.*/"}); }, {"matches the whole name of no layer", "a, b, c"});
  expect_error([&] { changed({"/d(/"}); }, {"no regular expression"});
}

// Another batch would move the statistics, and with them what the frozen layers make.
TEST_F(FreezeTest, FrozenStatisticsStay) {
  SolverParameter param = deep();
  LayerParameter& norm = *param.mutable_net_param()->mutable_layer(2);
  parse_text_proto("name: 'b' type: 'BatchNorm' bottom: 'a' top: 'b'", "layer", norm);
  for (const bool frozen : {false, true}) {
    Context context;
    SolverOptions options;
    if (frozen) options.freeze = {"b"};
    Solver solver(param, context, options);
    Tensor& factor = solver.net().layer("b").params()[2]->data;
    EXPECT_EQ(factor.at(0), 0);
    if (frozen) factor.change<float>()[0] = 1;
    solver.solve();
    EXPECT_EQ(solver.net().layer("b").params()[2]->data.at(0) > 1, !frozen);
  }
}

class LastTest : public test::SnapshotRun {};

TEST_F(LastTest, TheEndIsTestedWhateverTheInterval) {
  const std::string settings = "max_iter: 5 test_iter: 1 test_interval: 2 ";
  for (const auto& [more, expected] :
       {std::pair{"", std::vector<int>{0, 2, 4, 5}}, {"test_at_end: false", {0, 2, 4}}}) {
    Context context;
    Solver solver(solver_param(settings + more), context);
    std::vector<int> tested;
    solver.on_test = [&](const TestReport& report) { tested.push_back(report.iteration); };
    EXPECT_TRUE(solver.solve());
    EXPECT_EQ(tested, expected) << more;
  }
}

TEST_F(LastTest, TheBestWeightsAreThoseOfTheBestTest) {
  for (const std::string format : {"BINARYPROTO", "HDF5"}) {
    if (format == "HDF5" && !test::kBuiltWithHdf5) continue;
    const std::string ending = format == "HDF5" ? ".h5" : "";
    Context context;
    const std::string settings = text(
        "max_iter: 5 snapshot: 5 snapshot_keep: 1 test_iter: 1 test_interval: 2 snapshot_best: "
        "'loss' snapshot_best_is: GREATEST ema_decay: 0.5 snapshot_format: ",
        format);
    Solver solver(solver_param(settings), context);
    std::vector<double> first;
    solver.on_test = [&](const TestReport& report) {
      EXPECT_EQ(report.is_best, report.iteration == 0);
      if (report.iteration == 0) first = params_of(solver.net());
    };
    solver.solve();
    const auto best = solver.best();
    ASSERT_TRUE(best);
    EXPECT_EQ(best->iteration, 0) << "the loss falls, and the greatest is the best here";
    EXPECT_EQ(best->file, best_file(folder_ / "s", format == "HDF5"));
    NetParameter weights;
    read_weights(best->file, weights);
    EXPECT_EQ(weights.origin().best_output(), "loss");
    EXPECT_EQ(weights.origin().best_iteration(), 0);
    EXPECT_EQ(weights.origin().best_value(), best->value);
    EXPECT_EQ(weights.origin().tested(0).value(), best->value);
    Net net(solver_param("").net_param(), context);
    net.load_weights(best->file);
    EXPECT_EQ(params_of(net), first);
    for (const char* kind : {".caffemodel", ".solverstate", "_ema.caffemodel"}) {
      const std::string last = folder_ / "s_last" + kind + ending;
      EXPECT_EQ(fs::read_symlink(last), fs::path(file(5, kind + ending)).filename());
    }
    // A run that goes on knows the best of before.
    Solver resumed(solver_param(settings), context);
    resumed.restore(folder_ / "s_last.solverstate" + ending);
    ASSERT_TRUE(resumed.best());
    EXPECT_EQ(resumed.best()->iteration, 0);
    EXPECT_EQ(resumed.best()->file, best->file);
  }
}

TEST_F(LastTest, FilesOfARunAreToldByTheirNames) {
  for (const char* name : {"s_iter_1.caffemodel", "s_iter_20.solverstate.h5", "s_best.caffemodel",
                           "s_iter_3_ema.caffemodel", "s_last.solverstate", "s_iter_x.caffemodel",
                           "s_2_iter_1.caffemodel", "s_iter_1.caffemodel.tmp", "s.caffemodel",
                           "other_iter_1.caffemodel"})
    folder_.write(name, "");
  EXPECT_EQ(files_of_snapshots(folder_ / "s").size(), 5U);
  EXPECT_EQ(free_prefix(folder_ / "s"), folder_ / "s_3");
  EXPECT_TRUE(files_of_snapshots(folder_ / "none/s").empty());
}

}  // namespace
}  // namespace crema
