// Memory of a device: budgets choose what they choose on the CPU, and what a user reads where the
// memory does not suffice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/memory_error.hpp"
#include "core/memory_places.hpp"
#include "crema/net.hpp"
#include "support/fake_device.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using ::testing::HasSubstr;

/// Blocks of layers that a device computes by passes.
NetParameter blocks(int count) {
  std::string prototxt =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 32 dim: 24 } } }\n"
      "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 32 } } }\n";
  std::string last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    prototxt +=
        text("layer { name: 'ip", n, "' type: 'InnerProduct' bottom: '", last, "' top: 'ip", n,
             "' inner_product_param { num_output: 24 ", "weight_filler { type: 'xavier' } } }\n",
             "layer { name: 'bn", n, "' type: 'BatchNorm' bottom: 'ip", n, "' top: 'bn", n, "' }\n",
             "layer { name: 'th", n, "' type: 'TanH' bottom: 'bn", n, "' top: 'th", n, "' }\n",
             "layer { name: 'dr", n, "' type: 'Dropout' bottom: 'th", n, "' top: 'dr", n, "' }\n");
    last = text("dr", n);
  }
  return net_param(text(prototxt, "layer { name: 'ip' type: 'InnerProduct' bottom: '", last,
                        "' top: 'ip' inner_product_param { num_output: 3 weight_filler { type: "
                        "'xavier' } } }\nlayer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
                        "bottom: 'label' top: 'loss' }\n"));
}

size_t planned(const Net& net) {
  const MemoryPlan memory = net.memory();
  return memory.activations + memory.parameters + memory.engines;
}

std::set<std::string> recomputed(const Net& net) {
  std::set<std::string> names;
  for (const NetStep& step : net.steps()) {
    if (step.recomputed) names.insert(step.name);
  }
  return names;
}

std::vector<double> trained(Net& net) {
  std::vector<double> gradients;
  for (int pass = 0; pass < 4; ++pass) {
    fill_inputs(net);
    net.clear_gradients();
    net.forward();
    net.backward();
    for (const double value : gradients_of(net)) gradients.push_back(value);
  }
  return gradients;
}

Context on_device() {
  return Context({.device = {DeviceType::cuda, 0}, .threads = 1, .tune = false});
}

TEST(DeviceMemory, BudgetsChooseAsOnTheCpu) {
  const NetParameter param = blocks(6);
  Context device = on_device(), host({.threads = 1, .engine = "reference", .tune = false});
  // Apart, TanH and Dropout are steps of their own on a device too.
  Net plain(param, device, {.fuse = false}), on_host(param, host, {.fuse = false});
  ASSERT_TRUE(recomputed(plain).empty());
  const std::vector<double> expected = trained(plain);
  for (const double share : {0.9, 0.8}) {
    const auto budget = [&](const Net& net) {
      return net.memory().parameters + net.memory().engines +
             static_cast<size_t>(share * static_cast<double>(net.memory().activations));
    };
    Net small(param, device, {.fuse = false, .memory_budget = budget(plain)});
    Net small_on_host(param, host, {.fuse = false, .memory_budget = budget(on_host)});
    EXPECT_LE(planned(small), budget(plain));
    EXPECT_FALSE(recomputed(small).empty());
    EXPECT_EQ(recomputed(small), recomputed(small_on_host));
    // Computed again, they are the same bits, in records too.
    EXPECT_EQ(trained(small), expected);
  }
}

TEST(DeviceMemory, AMessageSaysWhatIsPlannedAndFree) {
  Context context = on_device();
  auto& device = dynamic_cast<FakeDevice&>(context.backend());
  Net net(blocks(3), context);
  fill_inputs(net);
  device.most_bytes = 4096;
  try {
    net.forward();
    FAIL() << "there is memory for it";
  } catch (const MemoryError& error) {
    const std::string what = error.what();
    EXPECT_THAT(what, HasSubstr("layer '"));
    EXPECT_THAT(what, HasSubstr("the net plans "));
    EXPECT_THAT(what, HasSubstr("of the device are free now"));
    EXPECT_THAT(what, HasSubstr("a smaller batch"));
    EXPECT_THAT(what, HasSubstr("--memory-budget"));
    EXPECT_THAT(what, HasSubstr("precision: BF16"));
  }
  // With memory again, the net runs.
  device.most_bytes = 0;
  net.forward();
}

TEST(DeviceMemory, PlacesChangeWhereMemoryComesOrGoes) {
  FakeDevice device;
  uint64_t last = memory_places();
  const auto changed = [&] {
    const uint64_t now = memory_places();
    return std::exchange(last, now) != now;
  };
  {
    const auto memory = std::make_shared<Memory>(64);
    memory->access(Access::overwrite);
    EXPECT_FALSE(changed()) << "of the host";
    memory->access(Access::read, &device);
    EXPECT_TRUE(changed());
    memory->access(Access::change, &device);
    memory->access(Access::read);
    EXPECT_FALSE(changed());
    {
      const auto piece = std::make_shared<Memory>(memory, 16, 16);
      EXPECT_TRUE(changed());
    }
    EXPECT_TRUE(changed());
  }
  EXPECT_TRUE(changed());
}

}  // namespace
}  // namespace crema::test
