// Parameters to and from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "core/memory.hpp"
#include "crema/parameter_arena.hpp"
#include "model/binary_format.hpp"
#include "net/plan.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

using test::net_param;
using test::params_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string net_text(int outputs, const std::string& second = "ip2") {
  return R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "a"
        inner_product_param { num_output: )" +
         std::to_string(outputs) + R"( weight_filler { type: "xavier" } } }
layer { name: ")" +
         second + R"(" type: "InnerProduct" bottom: "a" top: "b"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } })";
}

class WeightsTest : public ::testing::Test {
 protected:
  Net net(const std::string& text, uint64_t seed = 1) {
    return Net(net_param(text), context_, {.run = &states_.emplace_back(RunState{.seed = seed})});
  }
  Context context_;
  std::deque<RunState> states_;  // of nets
};

TEST_F(WeightsTest, ComeBackBitForBit) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  EXPECT_NE(params_of(from), params_of(to));
  const std::string path = ::testing::TempDir() + "/crema_weights.caffemodel";
  from.save_weights(path);
  const LoadReport report = to.load_weights(path, true);
  EXPECT_EQ(params_of(from), params_of(to));
  EXPECT_THAT(report.loaded, ElementsAre("ip1", "ip2"));
  EXPECT_THAT(report.missing, IsEmpty());
  std::filesystem::remove(path);
}

/// A layer of more values than are read with the message.
std::string wide_net(int outputs) {
  return R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 600 } } }
layer { name: "wide" type: "InnerProduct" bottom: "x" top: "a"
        inner_product_param { num_output: )" +
         std::to_string(outputs) + R"( weight_filler { type: "xavier" } } })";
}

TEST_F(WeightsTest, OfManyValuesComeBackToo) {
  const TempFolder folder;
  const std::string path = folder.path("net.caffemodel");
  Net from = net(wide_net(9), 1);
  from.save_weights(path);
  Net to = net(wide_net(9), 2);
  EXPECT_NE(params_of(from), params_of(to));
  to.load_weights(path, true);
  EXPECT_EQ(params_of(from), params_of(to));
  Net built(net_param(wide_net(9)), context_, {.weights = {path}});
  EXPECT_EQ(params_of(from), params_of(built));
  expect_error([&] { net(wide_net(8)).load_weights(path); }, {"wide", "9x600", "8x600", path});
}

// A net that is there keeps its parameters; one that is built with the file is not.
TEST_F(WeightsTest, OfADamagedFileAreRefused) {
  const TempFolder folder;
  const std::string path = folder.path("net.caffemodel");
  net(wide_net(9), 1).save_weights(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(9000);
    file.put('\x55');
    file.put('\xAA');
  }
  Net to = net(wide_net(9), 2);
  const auto before = params_of(to);
  expect_error([&] { to.load_weights(path); }, {path, "do not fit its checksum"});
  EXPECT_EQ(params_of(to), before);
  expect_error([&] { Net(net_param(wide_net(9)), context_, {.weights = {path}}); },
               {path, "do not fit its checksum"});
  // What the file says, too, may be of the damage.
  expect_error([&] { Net(net_param(wide_net(8)), context_, {.weights = {path}}); },
               {path, "do not fit its checksum"});
}

TEST_F(WeightsTest, SayWhatWasLoadedMissingAndUnused) {
  NetParameter saved;
  net(net_text(3)).save(saved);
  Net other = net(net_text(3, "ip2_new"), 2);
  const LoadReport report = other.load_weights(saved);
  EXPECT_THAT(report.loaded, ElementsAre("ip1"));
  EXPECT_THAT(report.missing, ElementsAre("ip2_new"));
  EXPECT_THAT(report.unused, ElementsAre("ip2"));
  EXPECT_EQ(report.str(), "weights: 1 layer loaded, 1 missing (ip2_new), 1 unused (ip2)");
  expect_error([&] { other.load_weights(saved, true); }, {"strict", "ip2_new"});
}

TEST_F(WeightsTest, ThatDoNotFitTheNetAreWarnedOf) {
  std::vector<std::string> warnings, infos;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    (severity == Severity::warning ? warnings : infos).push_back(message);
  }});
  TempFolder folder;
  const std::string file = folder.path("a.caffemodel"), other = folder.path("b.caffemodel");
  NetParameter saved;
  net(net_text(3)).save(saved);
  write_binary_proto_atomically(file, saved);
  for (auto& layer : *saved.mutable_layer()) layer.set_name(layer.name() + "_b");
  write_binary_proto_atomically(other, saved);
  const auto make = [&](std::vector<std::string> files, Phase phase, const std::string& second) {
    warnings.clear();
    infos.clear();
    Net(net_param(net_text(3, second)), context, {.phase = phase, .weights = std::move(files)});
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  make({file}, Phase::test, "ip2");
  EXPECT_THAT(warnings, IsEmpty());
  // Fine-tuning may miss a layer. A net that only runs needs them all.
  make({file}, Phase::train, "new");
  EXPECT_THAT(warnings, IsEmpty());
  make({file}, Phase::test, "new");
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("a.caffemodel"), HasSubstr("layer new;"))));
  for (const Phase phase : {Phase::train, Phase::test}) {
    make({other}, phase, "ip2");
    EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("b.caffemodel: no weights were loaded"),
                                            HasSubstr("'ip1'"), HasSubstr("'ip1_b'"),
                                            HasSubstr("--strict"))));
  }
  make({file, file}, Phase::test, "ip2");
  EXPECT_EQ(infos.back(), "together: 2 layers loaded, 0 missing, 0 unused");
  expect_error(
      [&] {
        Net(net_param(net_text(3)), context, {.weights = {file, other}, .strict = true});
      },
      {"a.caffemodel, ", "b.caffemodel do not fit", "strict"});
}

// A bias that one side has and the other has not.
TEST_F(WeightsTest, NameTheBiasThatOneSideHas) {
  const auto text = [](const std::string& type, const std::string& settings) {
    return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 dim: 4 "
           "dim: 4 } } } layer { name: 'l' type: '" +
           type + "' bottom: 'x' top: 'y' " + settings + " }";
  };
  const std::string conv = "convolution_param { num_output: 2 kernel_size: 3 ";
  const auto expect = [&](const std::string& type, const std::string& file,
                          const std::string& other, std::initializer_list<std::string_view> parts) {
    NetParameter saved;
    net(text(type, file)).save(saved);
    Net target = net(text(type, other));
    expect_error([&] { target.load_weights(saved); }, parts);
  };
  expect("Convolution", conv + "bias_term: false }", conv + "}",
         {"layer 'l' (Convolution)", "the file has 1 parameter for it, the net has 2",
          "set convolution_param { bias_term: false }, as the file has no bias"});
  expect("Deconvolution", conv + "}", conv + "bias_term: false }",
         {"the file has 2 parameters for it, the net has 1",
          "set convolution_param { bias_term: true }, as the file has a bias"});
  expect("Scale", "scale_param { bias_term: true }", "", {"scale_param { bias_term: true }"});
  const std::string ip = "inner_product_param { num_output: 2 ";
  expect("InnerProduct", ip + "bias_term: false }", ip + "}",
         {"inner_product_param { bias_term: false }"});
}

// Layers that share a parameter, with other values for it in the file.
TEST_F(WeightsTest, SharedParametersWithOtherValuesAreTold) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings.push_back(message);
  }});
  const auto text = [](const std::string& param) {
    return R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "z" type: "InnerProduct" bottom: "x" top: "z" )" +
           param + R"( inner_product_param { num_output: 2 bias_term: false } }
layer { name: "a" type: "InnerProduct" bottom: "z" top: "a" )" +
           param + " inner_product_param { num_output: 2 bias_term: false } }";
  };
  NetParameter saved;
  net(text("")).save(saved);
  const auto set = [&](int layer, float value) {
    auto& data = *saved.mutable_layer(layer)->mutable_blobs(0)->mutable_data();
    std::fill(data.begin(), data.end(), value);
  };
  Net shares(net_param(text("param { name: 'w' }")), context, {});
  set(1, 3);
  set(2, 3);
  shares.load_weights(saved);
  EXPECT_THAT(warnings, IsEmpty());
  set(2, 4);
  const TempFolder folder;
  const std::string file = folder.path("w.caffemodel");
  write_binary_proto_atomically(file, saved);
  shares.load_weights(file);
  // As published, the last one in the file.
  EXPECT_EQ(shares.layer("z").params()[0]->data.at(0), 4);
  EXPECT_THAT(warnings,
              ElementsAre(::testing::AllOf(
                  ::testing::HasSubstr("w.caffemodel: layers 'z' and 'a' share a parameter"),
                  ::testing::HasSubstr("those of 'a' hold"))));
  // Without sharing, both are right.
  warnings.clear();
  Net apart(net_param(text("")), context, {});
  apart.load_weights(saved);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(WeightsTest, OneLayerInTwoFilesIsTold) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings.push_back(message);
  }});
  const TempFolder folder;
  const std::string first = folder.path("a.caffemodel"), second = folder.path("b.caffemodel");
  NetParameter saved;
  net(net_text(3), 1).save(saved);
  write_binary_proto_atomically(first, saved);
  net(net_text(3), 2).save(saved);
  saved.mutable_layer()->DeleteSubrange(2, 1);
  write_binary_proto_atomically(second, saved);
  const Net both(net_param(net_text(3)), context, {.weights = {first, second}});
  EXPECT_EQ(static_cast<float>(both.layers()[1]->params()[0]->data.at(0)),
            saved.layer(1).blobs(0).data(0));
  EXPECT_THAT(warnings, ElementsAre(::testing::AllOf(
                            ::testing::HasSubstr("a.caffemodel and "),
                            ::testing::HasSubstr("b.caffemodel both have weights for layer ip1;"),
                            ::testing::HasSubstr("those of " + second + " hold"))));
}

TEST_F(WeightsTest, RefuseOtherShapes) {
  NetParameter saved;
  net(net_text(3)).save(saved);
  Net other = net(net_text(5));
  expect_error([&] { other.load_weights(saved); }, {"layer 'ip1'", "3x4", "5x4"});
}

TEST_F(WeightsTest, RefuseDamagedFiles) {
  Net target = net(net_text(3));
  NetParameter saved;
  target.save(saved);
  NetParameter short_one = saved;
  short_one.mutable_layer(1)->mutable_blobs(0)->mutable_data()->RemoveLast();
  expect_error([&] { target.load_weights(short_one); }, {"'ip1'", "11 values", "3x4"});
  NetParameter twice = saved;
  *twice.add_layer() = saved.layer(1);
  expect_error([&] { target.load_weights(twice); }, {"2 layers named 'ip1'", "the net for 1"});
  NetParameter fewer = saved;
  fewer.mutable_layer(1)->mutable_blobs()->RemoveLast();
  expect_error([&] { target.load_weights(fewer); }, {"1 parameter", "2"});
}

TEST_F(WeightsTest, LoadOldFourDimensionalShapes) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  NetParameter saved;
  from.save(saved);
  for (auto& layer : *saved.mutable_layer()) {
    for (auto& blob : *layer.mutable_blobs()) {
      const int rank = blob.shape().dim_size();
      blob.set_num(1);
      blob.set_channels(1);
      blob.set_height(rank == 2 ? static_cast<int>(blob.shape().dim(0)) : 1);
      blob.set_width(static_cast<int>(blob.shape().dim(rank - 1)));
      blob.clear_shape();
    }
  }
  to.load_weights(saved, true);
  EXPECT_EQ(params_of(from), params_of(to));
}

TEST_F(WeightsTest, LoadDoubles) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  NetParameter saved;
  from.save(saved);
  for (auto& layer : *saved.mutable_layer()) {
    for (auto& blob : *layer.mutable_blobs()) {
      for (float value : blob.data()) blob.add_double_data(value);
      blob.clear_data();
    }
  }
  to.load_weights(saved, true);
  EXPECT_EQ(params_of(from), params_of(to));
}

TEST_F(WeightsTest, ALoadThatFailsChangesNothing) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  const auto before = params_of(to);
  NetParameter saved;
  from.save(saved);
  NetParameter other_shape = saved;  // of the last layer: the first would fit
  other_shape.mutable_layer(2)->mutable_blobs(0)->mutable_shape()->set_dim(0, 3);
  expect_error([&] { to.load_weights(other_shape); }, {"layer 'ip2'", "3x3"});
  EXPECT_EQ(params_of(to), before);
  NetParameter renamed = saved;
  renamed.mutable_layer(2)->set_name("ip3");
  expect_error([&] { to.load_weights(renamed, true); }, {"strict"});
  EXPECT_EQ(params_of(to), before);
}

TEST_F(WeightsTest, ThatLayersCarryAreLoaded) {
  Net from = net(net_text(3), 1);
  NetParameter saved;
  from.save(saved);
  RunState state{.seed = 2};
  Net to(saved, context_, {.run = &state});
  EXPECT_EQ(params_of(to), params_of(from));

  NetParameter text = net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "s" type: "Scale" bottom: "x" top: "y" blobs { shape { dim: 2 } data: 3 data: 4 } })");
  Net scale(text, context_);
  scale.input("x").fill(2);
  scale.forward();
  EXPECT_THAT(test::values_of(scale.output("y")), ElementsAre(6, 8));

  text.mutable_layer(1)->mutable_blobs(0)->add_data(5);
  expect_error([&] { Net(text, context_); }, {"layer 's' (Scale)", "3 values"});
}

/// The most memory of the process since `begin_peak()`, in bytes; 0 where the system does not tell.
void begin_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
int64_t peak() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

TEST_F(WeightsTest, ThatLayersCarryAreNotCopiedOnTheWay) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  NetParameter carried = net_param(
      text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4096 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y"
        inner_product_param { bias_term: false num_output: )",
           kBytes / 4 / 4096, " } blobs { shape { dim: ", kBytes / 4 / 4096, " dim: 4096 } } }"));
  carried.mutable_layer(1)->mutable_blobs(0)->mutable_data()->Resize(kBytes / 4, 0.5F);
  begin_peak();
  const int64_t before = peak();
  Net to(carried, context_, {.phase = Phase::test});
  EXPECT_LT(peak() - before, kBytes * 3 / 2) << "the net's own and half as much";
  EXPECT_EQ(params_of(to).back(), 0.5);
}

TEST_F(WeightsTest, OfOldFormatsAreRead) {
  // Blobs of old files have four sizes, with leading ones.
  const std::string blobs =
      " blobs { num: 1 channels: 1 height: 2 width: 4 data: [1, 2, 3, 4, 5, 6, 7, 8] }"
      " blobs { num: 1 channels: 1 height: 1 width: 2 data: [9, 10] } ";
  const std::string v0 =
      "layers { bottom: 'x' top: 'y' layer { name: 'ip' type: 'innerproduct' "
      "num_output: 2 " +
      blobs + "} }";
  const std::string v1 =
      "layers { bottom: 'x' top: 'y' name: 'ip' type: INNER_PRODUCT "
      "inner_product_param { num_output: 2 } " +
      blobs + "}";
  const std::string input = "input: 'x' input_shape { dim: 1 dim: 4 } ";
  for (const std::string& old : {v0, v1}) {
    Net to = net(input +
                 "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
                 "inner_product_param { num_output: 2 } }");
    const std::string file = ::testing::TempDir() + "/crema_old.caffemodel";
    write_binary_proto_atomically(file, net_param(old));
    EXPECT_THAT(to.load_weights(file, true).loaded, ElementsAre("ip"));
    EXPECT_THAT(params_of(to), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    std::filesystem::remove(file);

    Net again = net(input +
                    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
                    "inner_product_param { num_output: 2 } }");
    again.load_weights(net_param(old), true);
    EXPECT_EQ(params_of(again), params_of(to));
    // The net's own message may have them, behind a layer that its upgrade removes.
    Net own =
        net(input + "layers { bottom: 'x' top: 'p' layer { name: 'p' type: 'padding' } } " + old);
    EXPECT_EQ(params_of(own), params_of(to));
  }
}

TEST_F(WeightsTest, OfLayersThatAreNotInTheStateAreLeftOut) {
  const auto layer = [](const char* phase, int value) {
    return text("layer { name: 's' type: 'Scale' bottom: 'x' top: 'y' include { phase: ", phase,
                " } blobs { shape { dim: 2 } data: ", value, " data: ", value, " } }");
  };
  const NetParameter prototxt =
      net_param(text("input: 'x' input_shape { dim: 1 dim: 2 }", layer("TRAIN", 1),
                     layer("TEST", 2), "layer { name: 't' type: 'Scale' bottom: 'y' top: 'z'",
                     " blobs { shape { dim: 2 } data: 3 data: 3 } }"));
  Net train(prototxt, context_), test(prototxt, context_, {.phase = Phase::test});
  EXPECT_THAT(params_of(train), ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(params_of(test), ElementsAre(2, 2, 3, 3));
}

TEST_F(WeightsTest, ThatLayersCarryDoNotOverwriteATrainedNet) {
  Net from = net(net_text(3), 1), trained = net(net_text(3), 2);
  NetParameter carried;
  from.save(carried);
  const auto before = params_of(trained);
  Net test(carried, context_, {.phase = Phase::test, .share_params_with = &trained});
  EXPECT_EQ(params_of(trained), before);
}

TEST_F(WeightsTest, OfLayersOfOneNameComeBackInOrder) {
  const std::string text = net_text(3, "ip1");
  Net from = net(text, 1), to = net(text, 2);
  NetParameter saved;
  from.save(saved);
  EXPECT_EQ(saved.layer(1).name(), "ip1");
  EXPECT_EQ(saved.layer(2).name(), "ip1");
  to.load_weights(saved, true);
  EXPECT_EQ(params_of(from), params_of(to));
}

// A layer under phase TRAIN is absent from what a TEST net exports.
TEST_F(WeightsTest, OfAnotherPhaseAreNotSaved) {
  const std::string text = net_text(3) + R"(
layer { name: "ip3" type: "InnerProduct" bottom: "b" top: "c" include { phase: TRAIN }
        inner_product_param { num_output: 2 } })";
  NetParameter saved;
  Net(net_param(text), context_, {.phase = Phase::test}).save(saved);
  ASSERT_EQ(saved.layer_size(), 3);
  EXPECT_EQ(saved.layer(2).name(), "ip2");
  Net(net_param(text), context_, {.phase = Phase::train}).save(saved);
  EXPECT_EQ(saved.layer_size(), 4);
}

// Drawing numbers for parameters that a file then overwrites took seconds for large nets.
TEST_F(WeightsTest, GivenAtConstructionAreNotDrawnFirst) {
  Net from = net(net_text(3), 1);
  NetParameter saved;
  from.save(saved);
  RunState state{.seed = 2};
  Net to(saved, context_, {.run = &state});
  const auto versions = [&] {
    std::vector<uint64_t> all;
    for (const auto& segment : to.params().segments()) {
      // Memories count from a multiple of 2^32.
      all.push_back(segment.parameter->data.memory()->version() & 0xffffffffU);
    }
    return all;
  };
  EXPECT_THAT(versions(), ::testing::Each(2)) << "made current on the host, then written once";
  to.forward();
  EXPECT_THAT(versions(), ::testing::Each(2));
  EXPECT_EQ(params_of(to), params_of(from));
}

TEST_F(WeightsTest, FilesGivenToTheNetAreNotDrawnFirst) {
  const TempFolder folder;
  const std::string file = folder.path("one.caffemodel"), second = folder.path("two.caffemodel");
  Net from = net(net_text(3), 1), other = net(net_text(3, "new"), 3);
  from.save_weights(file);
  other.save_weights(second);
  const auto make = [&](const std::string& text, std::vector<std::string> files, bool strict) {
    return Net(net_param(text), context_,
               {.weights = std::move(files),
                .strict = strict,
                .run = &states_.emplace_back(RunState{.seed = 2})});
  };
  Net to = make(net_text(3), {file}, true);
  EXPECT_EQ(params_of(to), params_of(from));
  for (const auto& segment : to.params().segments()) {
    EXPECT_EQ(segment.parameter->data.memory()->version() & 0xffffffffU, 2U) << "written once";
  }
  // What the files lack is drawn by the seed.
  Net partly = make(net_text(3, "new"), {file}, false), drawn = net(net_text(3, "new"), 2);
  EXPECT_EQ(test::values_of(partly.layer("new").params()[0]->data),
            test::values_of(drawn.layer("new").params()[0]->data));
  EXPECT_EQ(test::values_of(partly.layer("ip1").params()[0]->data),
            test::values_of(from.layer("ip1").params()[0]->data));
  // A later file comes over an earlier one, and strict is about all of them together.
  Net both = make(net_text(3, "new"), {file, second}, false);
  EXPECT_EQ(params_of(both), params_of(other));
  expect_error([&] { make(net_text(3, "new"), {file, second}, true); }, {"strict", "ip2"});
  expect_error([&] { make(net_text(5), {file}, false); }, {file, "layer 'ip1'", "3x4", "5x4"});
}

// A fully connected layer was published as a convolution over the whole bottom, and the reverse.
TEST_F(WeightsTest, OtherPublishedShapesAreAdopted) {
  const std::string text = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 3 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "z"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } })";
  Net from = net(text, 1), to = net(text, 2);
  NetParameter saved;
  from.save(saved);
  const auto give = [&](int layer, int blob, std::initializer_list<int> dims) {
    BlobShape& shape = *saved.mutable_layer(layer)->mutable_blobs(blob)->mutable_shape();
    shape.clear_dim();
    for (const int dim : dims) shape.add_dim(dim);
  };
  for (const bool four : {false, true}) {
    if (four) {
      give(1, 0, {1, 1, 4, 18});
      give(2, 0, {1, 1, 4, 18});
    } else {
      give(1, 0, {4, 18});
      give(2, 0, {4, 2, 3, 3});
    }
    give(1, 1, {1, 4, 1, 1});
    give(2, 1, {4, 1, 1, 1});
    Net target = net(text, 2);
    target.load_weights(saved, true);
    EXPECT_EQ(params_of(target), params_of(from)) << four;
  }
  give(1, 0, {4, 2, 1, 9});
  expect_error([&] { to.load_weights(saved); }, {"layer 'conv'", "4x2x1x9", "4x2x3x3"});
  give(1, 0, {4, 18});
  give(2, 0, {18, 4});
  expect_error([&] { to.load_weights(saved); }, {"layer 'ip'", "18x4", "4x18"});
}

TEST_F(WeightsTest, BatchNormTakesWhatIsPublished) {
  const auto prototxt = [](const char* settings) {
    return text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "bn" type: "BatchNorm" bottom: "x" top: "y" batch_norm_param { )",
                settings, " } }");
  };
  const auto file = [](const std::vector<std::vector<float>>& blobs) {
    NetParameter saved;
    LayerParameter& layer = *saved.add_layer();
    layer.set_name("bn");
    for (const auto& values : blobs) {
      BlobProto& blob = *layer.add_blobs();
      blob.set_num(1);
      blob.set_channels(static_cast<int>(values.size()));
      blob.set_height(1);
      blob.set_width(1);
      blob.mutable_data()->Assign(values.begin(), values.end());
    }
    return saved;
  };
  const std::vector<float> mean = {1, 2}, variance = {3, 4}, factor = {0.5}, scale = {5, 6},
                           bias = {7, 8}, ones = {1, 1}, zeros = {0, 0};
  const auto loaded = [&](const char* settings, const NetParameter& weights) {
    Net target = net(prototxt(settings));
    target.load_weights(weights, true);
    return params_of(target);
  };
  EXPECT_THAT(loaded("", file({mean, variance})), ElementsAre(1, 2, 3, 4, 1));
  EXPECT_THAT(loaded("", file({mean, variance, factor})), ElementsAre(1, 2, 3, 4, 0.5));
  EXPECT_THAT(loaded("", file({mean, variance, factor, ones, zeros})),
              ElementsAre(1, 2, 3, 4, 0.5));
  const char* const scaled = "scale_bias: true";
  EXPECT_THAT(loaded(scaled, file({mean, variance, factor, scale, bias})),
              ElementsAre(1, 2, 3, 4, 0.5, 5, 6, 7, 8));
  EXPECT_THAT(loaded(scaled, file({mean, variance, scale, bias})),
              ElementsAre(1, 2, 3, 4, 1, 5, 6, 7, 8));
  expect_error(
      [&] {
        loaded("", file({mean, variance, factor, scale, bias}));
      },
      {"layer 'bn'", "scale", "scale_bias: true"});
  expect_error(
      [&] {
        loaded(scaled, file({mean, variance, factor}));
      },
      {"3 parameters", "the net has 5"});
  expect_error([&] { loaded("", file({mean})); }, {"1 parameter", "the net has 3"});
}

TEST_F(WeightsTest, ThatAFileLacksAreThoseOfTheSeed) {
  Net whole = net(net_text(3), 2), partly = net(net_text(3), 2);
  NetParameter saved;
  net(net_text(3), 1).save(saved);
  saved.mutable_layer(2)->set_name("other");
  partly.load_weights(saved);
  partly.forward();
  EXPECT_EQ(test::values_of(partly.layer("ip2").params()[0]->data),
            test::values_of(whole.layer("ip2").params()[0]->data));
  EXPECT_NE(test::values_of(partly.layer("ip1").params()[0]->data),
            test::values_of(whole.layer("ip1").params()[0]->data));
}

// A pointer that the caller kept is good for writing at any time.
TEST_F(WeightsTest, WrittenThroughAKeptPointerCount) {
  for (const bool trains : {false, true}) {
    RunState state{.seed = 1};
    Net target(
        net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 16 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: "xavier" } } })"),
        context_,
        {.backward = trains ? NetOptions::Backward::yes : NetOptions::Backward::no, .run = &state});
    test::fill_inputs(target);
    Tensor& weights = target.layer("conv").params()[0]->data;
    float* const kept = weights.change<float>();
    target.forward();
    std::vector<double> twice = test::values_of(target.output("y"));
    for (double& value : twice) value *= 2;
    for (int64_t i = 0; i < weights.count(); ++i) kept[i] *= 2;
    target.forward();
    EXPECT_EQ(test::values_of(target.output("y")), twice);
  }
}

TEST_F(WeightsTest, ThatTheCallerWritesStay) {
  Net target = net(net_text(3));
  target.layer("ip1").params()[0]->data.fill(0);
  target.forward();
  for (double value : test::values_of(target.layer("ip1").params()[0]->data)) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace crema
