// A net for tests of times and profiles on a device.
#pragma once

namespace crema::test {

// All of it runs on the device. Concat is one kernel.
inline constexpr const char* kDeviceNet = R"(
layer { name: "x" type: "Input" top: "x" top: "label"
        input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } shape { dim: 2 dim: 4 dim: 4 } } }
layer { name: "lrn" type: "LRN" bottom: "x" top: "lrn" }
layer { name: "cat" type: "Concat" bottom: "x" bottom: "lrn" top: "cat" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "cat" bottom: "label" top: "loss" })";

}  // namespace crema::test
