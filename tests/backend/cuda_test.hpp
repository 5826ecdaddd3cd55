// What the tests of CUDA share. They are skipped where there is no device.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"

namespace crema::test {

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_device();
    if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
    context_ = std::make_unique<Context>(ContextOptions{.device = {DeviceType::cuda, 0}});
  }
  DeviceBackend& backend() { return context_->backend(); }

  std::unique_ptr<Context> context_;
};

/// A layer that a CUDA engine runs as the reference does.
struct EngineCase {
  const char* name;
  const char* engine;
  LayerCase layer;
  Tolerance tolerance = {};
};

inline void PrintTo(const EngineCase& engine_case, std::ostream* out) { *out << engine_case.name; }
inline std::string name_of_case(const testing::TestParamInfo<EngineCase>& one) {
  return one.param.name;
}

/// Its test is in cuda_layers_test.cpp, its cases are in the files of the families.
class CudaEngine : public testing::TestWithParam<EngineCase> {};

/// Of values that are sums, in another order than those of the reference.
inline const Tolerance kSums{1e-4, 1e-4};

inline std::string layer_of(const char* type, const std::string& settings = "") {
  return text("layer { type: '", type, "' ", settings, " }");
}

}  // namespace crema::test
