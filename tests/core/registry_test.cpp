#include "crema/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/layer.pb.h"
#include "support/expect_error.hpp"
#include "support/layer_test.hpp"

namespace crema {
namespace {

class Nothing : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs, Blobs) override {}
  void forward_cpu(Blobs, Blobs) override {}
};

class NoEngine : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs, Blobs, std::string&) const override {
    return {};
  }
  std::unique_ptr<Kernel> make(Layer&, const Option&, Blobs, Blobs) const override {
    return nullptr;
  }
};

LayerParameter param_of(const std::string& name, const std::string& type) {
  LayerParameter param;
  param.set_name(name);
  param.set_type(type);
  return param;
}

// The registry lives as long as the process: each test adds types of its own names.
Registry& registry() { return Registry::instance(); }

std::unique_ptr<Layer> make(const LayerParameter& param, Context& context) {
  static const RunState run;
  return registry().make({.param = param, .context = context, .run = run});
}

TEST(Registry, MakesRegisteredTypes) {
  registry().add<Nothing>("TestNothing");
  EXPECT_TRUE(registry().has("TestNothing"));
  EXPECT_THAT(registry().types(), testing::Contains("TestNothing"));
  Context context;
  const auto layer = make(param_of("a", "TestNothing"), context);
  EXPECT_EQ(layer->name(), "a");
  EXPECT_EQ(layer->type(), "TestNothing");
}

TEST(Registry, NamesTheNearestType) {
  registry().add<Nothing>("TestConvoluted");
  Context context;
  expect_error([&] { make(param_of("c1", "TestConvolutde"), context); },
               {"layer 'c1' (TestConvolutde)", "did you mean 'TestConvoluted'"});
}

TEST(Registry, FarTypesGetNoSuggestion) {
  Context context;
  try {
    make(param_of("c1", "Zyzzyva"), context);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "layer 'c1' (Zyzzyva): there is no layer type 'Zyzzyva'; if a plug-in brings it, "
                 "load that with --plugin=FILE or crema::load_plugin()");
  }
}

TEST(Registry, MissingTypeIsAnError) {
  Context context;
  expect_error([&] { make(param_of("c1", ""), context); }, {"'c1'", "no type"});
}

TEST(Registry, TypesAreUnique) {
  registry().add<Nothing>("TestTwice");
  expect_error([] { registry().add<Nothing>("TestTwice"); }, {"'TestTwice'", "already"});
  expect_error([] { registry().add<Nothing>(""); }, {"name"});
}

TEST(Registry, EnginesKeepTheirOrderPerDevice) {
  registry().add_engine<NoEngine>("TestEngines", "fast", DeviceType::cpu);
  registry().add_engine<NoEngine>("TestEngines", "gpu", DeviceType::cuda);
  registry().add_engine<NoEngine>("TestEngines", "slow", DeviceType::cpu);
  const auto engines = registry().engines("TestEngines", DeviceType::cpu);
  ASSERT_EQ(engines.size(), 2u);
  EXPECT_EQ(engines[0]->name, "fast");
  EXPECT_EQ(engines[1]->name, "slow");
  EXPECT_NE(engines[0]->engine, nullptr);
  EXPECT_EQ(registry().engines("TestEngines", DeviceType::cuda).size(), 1u);
  // What each device runs comes behind libraries.
  registry().add_engine<NoEngine>("TestLibraries", "cuda", DeviceType::cuda);
  registry().add_engine<NoEngine>("TestLibraries", "library", DeviceType::cuda);
  const auto of_device = registry().engines("TestLibraries", DeviceType::cuda);
  ASSERT_EQ(of_device.size(), 2u);
  EXPECT_EQ(of_device[0]->name, "library");
  EXPECT_TRUE(registry().engines("TestNoSuchType", DeviceType::cpu).empty());
}

TEST(Registry, EngineNamesAreUniquePerTypeAndDevice) {
  registry().add_engine<NoEngine>("TestSame", "fast", DeviceType::cpu);
  registry().add_engine<NoEngine>("TestSame", "fast", DeviceType::cuda);
  expect_error([] { registry().add_engine<NoEngine>("TestSame", "fast", DeviceType::cpu); },
               {"'fast'", "'TestSame'"});
}

TEST(Registry, PublishedTypesThatAreNotThereAreNotTakenForOthers) {
  Context context;
  try {
    make(param_of("up", "EvalDetection"), context);
    ADD_FAILURE() << "the layer is there: give the test another one";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "there is no layer type 'EvalDetection' yet");
  }
}

// Types of forks, and types without settings of their own.
TEST(Registry, KnowsPublishedTypesWithoutARoom) {
  Context context;
  for (const char* type : {"DetectNetTransformation", "EvalDetection", "VideoData"}) {
    if (registry().has(type)) continue;
    expect_error([&] { make(param_of("a", type), context); }, {type, " yet"});
  }
}

TEST(Registry, KnowsTheEnginesOfAllTypes) {
  registry().add_engine<NoEngine>("TestRare", "test_rare", DeviceType::cuda);
  registry().require_engine("test_rare", DeviceType::cuda);
  registry().require_engine("reference", DeviceType::cpu);
  expect_error([] { registry().require_engine("test_rarre", DeviceType::cuda); },
               {"'test_rarre'", "did you mean 'test_rare'?"});
  expect_error([] { registry().require_engine("test_rare", DeviceType::cpu); }, {"'test_rare'"});
}

TEST(Registry, AnEngineForcedByTheContextLeavesTypesWithoutItAlone) {
  const test::LayerCase pooling{
      .layer = "layer { type: 'Pooling' pooling_param { kernel_size: 2 } }",
      .bottoms = {test::uniform({1, 2, 4, 4})}};
  EXPECT_EQ(test::LayerRun(pooling, {.engine = "winograd"}).engine(),
            test::LayerRun(pooling, {.engine = ""}).engine());
  expect_error([&] { test::LayerRun(pooling, {.engine = "winogard"}); },
               {"'winogard'", "did you mean 'winograd'?"});
}

}  // namespace
}  // namespace crema
