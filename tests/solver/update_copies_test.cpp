// Training of a layer that reads a copy of its parameter, as convolutions of a device do: the
// update writes the copy, and whatever else changes the parameter is noticed. On a device that
// lives in host memory.
#include "solver/update_copies.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/memory.hpp"
#include "crema/registry.hpp"
#include "crema/solver.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

constexpr int64_t kValues = 24;
const ParameterCopy::Form kForm{DepthMap::plain(3, {1, 2, 2}), 2, DType::bf16};

/// y = x * w, each a row, with w rounded to bf16: that of a copy on a device.
class CopiedLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;
  void setup(Blobs, Blobs) override { add_param(Shape{2, 3, 2, 2}, Filler::constant(0.75)); }
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const bfloat16* const w = weights(device);
    const float* const x = device.read<float>(bottom[0]->data);
    for_each(device, top[0]->count(), kPassGrain,
             Times{x, w, !device.on_host(), device.overwrite<float>(top[0]->data)});
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    const float* const x = device.read<float>(bottom[0]->data);
    const float* const dy = device.read<float>(top[0]->diff);
    for_each(device, kValues, kPassGrain,
             AddProducts{top[0]->count() / kValues, x, dy,
                         gradient_of<float>(device, params()[0].get())});
  }

 private:
  struct Times {
    const float* x;
    const bfloat16* w;
    bool ordered;  // w is a copy
    float* y;
    CREMA_FUNCTOR void operator()(int64_t i) const {
      const auto at = static_cast<uint32_t>(i % kValues);
      const uint32_t place = ordered ? at / 12 * 12 + kForm.map.deep_weight_of(at % 12) : at;
      y[i] = x[i] * convert_value<float>(w[place]);
    }
  };
  struct AddProducts {
    int64_t rows;
    const float* x;
    const float* dy;
    float* dw;
    CREMA_FUNCTOR void operator()(int64_t i) const {
      for (int64_t n = 0; n < rows; ++n) dw[i] += x[n * kValues + i] * dy[n * kValues + i];
    }
  };

  const bfloat16* weights(const ComputeDevice& device) {
    Parameter& parameter = *params()[0];
    if (device.on_host()) {
      rounded_.clear();
      for (const float value : parameter.data.values<float>()) rounded_.emplace_back(value);
      return rounded_.data();
    }
    if (copy_ == nullptr) {
      copy_ = ParameterCopies::of(context().device_run())
                  .get(*device.backend(), parameter.values(), kForm);
    }
    return static_cast<const bfloat16*>(copy_->read());
  }

  std::shared_ptr<ParameterCopy> copy_;
  std::vector<bfloat16> rounded_;
};

/// A solver of one layer, on a device or on the CPU.
struct CopySolver {
  explicit CopySolver(const std::string& settings, bool on_device = true)
      : owned(on_device ? std::make_unique<FakeDevice>() : nullptr),
        device(owned.get()),
        context({.threads = 1}, std::move(owned)),
        solver(param_of(settings), context) {}

  static SolverParameter param_of(const std::string& settings) {
    static const bool registered =
        (add_two_sided<CopiedLayer>(Registry::instance(), "TestCopied"), true);
    EXPECT_TRUE(registered);
    SolverParameter param;
    parse_text_proto(
        text("net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { "
             "shape { dim: 4 dim: ",
             kValues, " } shape { dim: 4 dim: ", kValues,
             " } data_filler { type: 'uniform' min: -1 max: 1 } data_filler { type: 'uniform' min: "
             "0.5 max: 1 } } } "
             "layer { name: 'c' type: 'TestCopied' bottom: 'x' top: 'c' } "
             "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'c' bottom: 'y' top: 'loss' } } "
             "random_seed: 3 base_lr: 0.5 momentum: 0.9 lr_policy: 'fixed' max_iter: 1000 "
             "snapshot_after_train: false ",
             settings),
        "solver.prototxt", param);
    return param;
  }

  Parameter& parameter() { return *solver.net().layer("c").params()[0]; }
  std::vector<double> values() { return test::params_of(solver.net()); }
  std::shared_ptr<ParameterCopy> copy() {
    return ParameterCopies::of(context.device_run())
        .get(context.backend(), *parameter().storage(), kForm);
  }
  int64_t launches() { return copy()->launches(); }
  void expect_copy_of_values() {
    ASSERT_TRUE(copy()->is_current());
    const auto* const found = static_cast<const bfloat16*>(copy()->read());
    for (int64_t i = 0; i < kValues; ++i) {
      const int64_t place = i / 12 * 12 + kForm.map.deep_weight_of(static_cast<uint32_t>(i % 12));
      EXPECT_EQ(found[place].bits, bfloat16(static_cast<float>(parameter().data.at(i))).bits) << i;
    }
  }

  std::unique_ptr<FakeDevice> owned;
  FakeDevice* device;
  Context context;
  Solver solver;
};

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

class CopiesInTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
  }
};

TEST_F(CopiesInTraining, TheUpdateWritesThem) {
  for (const char* more :
       {"", "type: 'Nesterov' weight_decay: 0.01", "clip_gradients: 0.1", "iter_size: 2"}) {
    SCOPED_TRACE(more);
    CopySolver run(more), on_cpu(more, false);
    run.solver.step(20);
    on_cpu.solver.step(20);
    expect_near(run.values(), on_cpu.values());
    EXPECT_EQ(run.launches(), 1);
    EXPECT_GT(run.device->launches, 10);  // of records
    run.expect_copy_of_values();
  }
}

TEST_F(CopiesInTraining, WhatElseChangesTheParameterIsNoticed) {
  CopySolver run(""), on_cpu("", false);
  for (CopySolver* each : {&run, &on_cpu}) {
    each->solver.step(5);
    each->parameter().data.changing<float>().data()[3] = 0.25F;
    each->solver.step(5);
  }
  expect_near(run.values(), on_cpu.values());
  EXPECT_EQ(run.launches(), 2);
  // A pointer that stays: a launch in each pass.
  for (CopySolver* each : {&run, &on_cpu}) {
    each->parameter().data.change<float>()[0] = 0.5F;
    each->solver.step(4);
  }
  EXPECT_EQ(run.launches(), 6);
  run.parameter().data.seal();
  on_cpu.parameter().data.seal();
  for (CopySolver* each : {&run, &on_cpu}) each->solver.step(6);
  EXPECT_EQ(run.launches(), 7);
  expect_near(run.values(), on_cpu.values());
}

TEST_F(CopiesInTraining, AnAverageIsReadWhereItIsTheNets) {
  const std::string settings =
      "ema_decay: 0.9 test_interval: 5 test_iter: 1 test_initialization: "
      "false ";
  CopySolver run(settings), on_cpu(settings, false);
  std::vector<double> scores[2];
  for (CopySolver* each : {&run, &on_cpu}) {
    each->solver.on_test = [&, of = each == &run ? 0 : 1](const TestReport& report) {
      for (const auto& output : report.outputs) scores[of].push_back(output.value);
    };
    each->solver.step(16);
  }
  EXPECT_FALSE(scores[0].empty());
  expect_near(scores[0], scores[1]);
  expect_near(run.values(), on_cpu.values());
  run.expect_copy_of_values();
  // Each test reads the average, and training what it goes on with.
  EXPECT_EQ(run.launches(), 7);
}

TEST_F(CopiesInTraining, AFailedUpdateLeavesThem) {
  CopySolver run("");
  run.solver.step(5);
  const std::vector<double> before = run.values();
  ParameterArena& arena = run.solver.net().params();
  UpdateRule rule(CopySolver::param_of(""), run.context);
  std::vector<Tensor> history(1, Tensor(Shape{arena.size()}, arena.dtype()));
  run.parameter().gradient().fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(rule.update(arena, history, {.rate = 1}));
  EXPECT_EQ(run.values(), before);
  run.expect_copy_of_values();
  run.parameter().gradient().fill(0.5);
  EXPECT_TRUE(rule.update(arena, history, {.rate = 1}));
  EXPECT_NE(run.values(), before);
  run.expect_copy_of_values();
  EXPECT_EQ(run.launches(), 1);
}

TEST_F(CopiesInTraining, AParameterThatDoesNotLearnHasNone) {
  CopySolver run("");
  run.solver.step(3);
  run.parameter().lr_mult = 0;
  UpdateCopies copies;
  const CopyTable table =
      copies.prepare(run.solver.net().params(), run.context.device_run(), run.context.backend());
  EXPECT_EQ(table.first, nullptr);
  run.solver.step(3);
  EXPECT_EQ(run.launches(), 1);
  run.expect_copy_of_values();
}

}  // namespace
}  // namespace crema
