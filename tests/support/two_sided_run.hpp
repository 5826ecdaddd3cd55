// A layer with one text for host and device on a device that lives in host memory, compared with
// the host.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "core/dispatch.hpp"
#include "layer_support/two_sided.hpp"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/values.hpp"

namespace crema::test {

/// Forward and backward on a device give what the host gave, and nothing but inputs goes there.
/// `to_host`: what forward reads back, where the first `there` bottoms lie on the device alone.
/// Forward alone where the layer does not train.
inline void check_device(const LayerCase& c, const Tolerance& tolerance = {0, 0},
                         DType dtype = DType::f32, int to_host = 0, bool trains = true,
                         int there = 0) {
  SCOPED_TRACE(c.layer);
  LayerRun first(c);
  for (int option = 0; option < static_cast<int>(first.options().size()); ++option) {
    FakeDevice device;  // outlives what the layer holds there
    LayerRun run(c, {.dtype = dtype, .option = option, .trains = trains});
    const std::vector<Layout>& layouts = run.option().bottoms;
    if (!layouts.empty() && block_of(layouts[0].format) > 1) continue;
    run.forward();
    // Layers may keep gradients of forward: those of the host are of a run of its own.
    LayerRun host(c, {.dtype = dtype, .option = option, .trains = trains});
    host.forward();
    const ComputeDevice side(device);
    std::vector<Blob*> bottoms, tops;
    std::vector<bool> propagate;
    for (int i = 0; i < run.num_bottoms(); ++i) {
      bottoms.push_back(&run.bottom_blob(i));
      propagate.push_back(run.layer().can_propagate(i));
    }
    for (int i = 0; i < run.num_tops(); ++i) tops.push_back(&run.top_blob(i));
    auto& layer = dynamic_cast<TwoSidedLayer&>(run.layer());
    std::vector<Blob> results(tops.size());
    std::vector<Blob*> tops_there;
    for (size_t i = 0; i < tops.size(); ++i) {
      results[i].data = Tensor(tops[i]->shape(), tops[i]->data.dtype(), tops[i]->data.format());
      tops_there.push_back(&results[i]);
    }
    for (int i = 0; i < there; ++i) {
      Tensor& data = bottoms[static_cast<size_t>(i)]->data;
      dispatch_float(data.dtype(), [&]<class T>(T) { side.change<T>(data); });
    }
    layer.run_forward(side, bottoms, tops_there);
    EXPECT_EQ(device.downloads, to_host);
    for (int i = 0; i < run.num_tops(); ++i) {
      expect_close(values_of(results[i].data), host.top(i), tolerance, text("top ", i));
    }
    if (!trains || (!any_of(propagate) && run.num_params() == 0)) continue;
    host.backward();
    run.backward();
    for (size_t i = 0; i < bottoms.size(); ++i) {
      if (!propagate[i]) continue;
      Tensor& diff = bottoms[i]->diff;
      diff = Tensor(diff.shape(), diff.dtype(), diff.format());
    }
    const int downloads = device.downloads;
    layer.run_backward(side, tops, propagate, bottoms);
    EXPECT_EQ(device.downloads, downloads);
    for (size_t i = 0; i < bottoms.size(); ++i) {
      if (!propagate[i]) continue;
      expect_close(values_of(bottoms[i]->diff), host.bottom_diff(static_cast<int>(i)), tolerance,
                   text("bottom ", i));
    }
    for (int i = 0; i < run.num_params(); ++i) {
      std::vector<double> gradient = host.gradient(i);
      for (double& value : gradient) value *= 2;  // of both passes of `run`
      expect_close(run.gradient(i), gradient, tolerance, text("gradient ", i));
    }
    for (Blob* blob : bottoms) blob->data = blob->diff = Tensor();
    for (Blob* blob : tops) blob->data = blob->diff = Tensor();
  }
}

}  // namespace crema::test
