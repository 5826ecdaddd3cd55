#include "solver/weight_average.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "crema/parameter_arena.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"

namespace crema {

WeightAverage::WeightAverage(Net& net)
    : net_(net), values_(Shape{net.params().size()}, net.params().dtype()) {}

Tensor& WeightAverage::values() {
  follow();
  return values_;
}

ComputeDevice WeightAverage::device() {
  Context& context = net_.context();
  const ComputeDevice device =
      context.on_gpu() ? ComputeDevice(context.backend()) : ComputeDevice();
  // All of it has to be on this device before a part of it is overwritten there.
  device.read_bytes(values_);
  return device;
}

void WeightAverage::follow() {
  const auto& segments = net_.params().segments();
  averaged_.resize(segments.size(), false);
  for (size_t i = 0; i < segments.size(); ++i) {
    Parameter& parameter = *segments[i].parameter;
    const bool begins = learns(parameter) && !averaged_[i];
    if (begins) {
      const ThreadScope threads(net_.context().threads());
      Tensor part = part_of(values_, segments[i]);
      copy(device(), parameter.data, part);
    }
    averaged_[i] = learns(parameter);
  }
}

double average_decay(const SolverParameter& param, int iteration) {
  if (param.ema_warmup() <= 0) return param.ema_decay();
  const double update = iteration + 1.0;
  return std::min<double>(param.ema_decay(), (1 + update) / (param.ema_warmup() + update));
}

void load_read_weights(Net& net, const std::string& path, const NetParameter& read) {
  try {
    net.load_weights(read, true);
  } catch (Error& error) {
    error.at({path, 0, 0});
    throw;
  }
}

void WeightAverage::restore(const std::string& path, const NetParameter& read) {
  averaged_.clear();
  if (path.empty()) {
    net_.context().log(Severity::warning,
                       "the state has no average of the weights (ema_decay); it starts as the "
                       "weights of the state");
    return;
  }
  load_read_weights(net_, path, read);
  follow();
}

void WeightAverage::show(bool average) {
  if (average == in_net_) return;
  if (average) follow();
  const ThreadScope threads(net_.context().threads());
  const ComputeDevice device = this->device();
  // Memory is taken before the first swap: none of them fails for lack of it.
  int64_t most = 0;
  for (const auto& segment : net_.params().segments()) most = std::max(most, segment.count);
  Tensor scratch(Shape{most}, values_.dtype());
  device.overwrite_bytes(scratch);
  size_t done = 0;
  try {
    for (; done < averaged_.size(); ++done) swap(device, done, scratch);
  } catch (...) {
    // The net holds one of the two, not some of each.
    while (done > 0) swap(device, --done, scratch);
    throw;
  }
  in_net_ = average;
}

void WeightAverage::swap(const ComputeDevice& device, size_t number, const Tensor& scratch) {
  if (!averaged_[number]) return;
  const ParameterArena::Segment& segment = net_.params().segments()[number];
  Tensor& in_net = segment.parameter->data;
  Tensor other = part_of(values_, segment), kept(in_net.shape(), in_net.dtype());
  kept.bind(scratch.memory(), scratch.offset());
  copy(device, in_net, kept);
  copy(device, other, in_net);
  copy(device, kept, other);
}

WeightAverage::InNet::InNet(WeightAverage* of, bool average) : of_(of) {
  if (of_ == nullptr) return;
  before_ = of_->in_net_;
  of_->show(average);
}

WeightAverage::InNet::~InNet() {
  if (of_ == nullptr) return;
  try {
    of_->show(before_);
  } catch (const std::exception& error) {
    of_->net_.context().log(Severity::error,
                            text("the weights are not put back after a use of their average; "
                                 "continue from a snapshot: ",
                                 error.what()));
  }
}

}  // namespace crema
