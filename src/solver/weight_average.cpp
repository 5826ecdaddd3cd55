#include "solver/weight_average.hpp"

#include "core/move.hpp"
#include "core/parallel.hpp"
#include "crema/parameter_arena.hpp"
#include "solver/update_rule.hpp"

namespace crema {

WeightAverage::WeightAverage(Net& net)
    : net_(net), values_(Shape{net.params().size()}, net.params().dtype()) {}

Tensor& WeightAverage::values() {
  if (!started_) start();
  return values_;
}

template <class Body>
void WeightAverage::for_parts(const Body& body) {
  Context& context = net_.context();
  const ThreadScope threads(context.threads());
  const Side side = context.on_gpu() ? Side(context.backend()) : Side();
  // All of it has to be on this side before a part of it is overwritten there.
  side.read_bytes(values_);
  for (const ParameterArena::Segment& segment : net_.params().segments()) {
    if (!learns(*segment.parameter)) continue;
    Tensor part = part_of(values_, segment);
    body(side, segment.parameter->data, part);
  }
}

void WeightAverage::start() {
  for_parts(
      [](const Side& side, Tensor& weights, Tensor& average) { copy(side, weights, average); });
  started_ = true;
}

void WeightAverage::restore(const std::string& path) {
  if (path.empty()) {
    started_ = false;
    net_.context().log(Severity::warning,
                       "the state has no average of the weights (ema_decay); it starts as the "
                       "weights of the state");
    return;
  }
  net_.load_weights(path, true);
  start();
}

void WeightAverage::show(bool average) {
  if (average == in_net_) return;
  if (!started_) start();
  Tensor weights;
  for_parts([&](const Side& side, Tensor& in_net, Tensor& other) {
    weights = Tensor(in_net.shape(), in_net.dtype());
    copy(side, in_net, weights);
    copy(side, other, in_net);
    copy(side, weights, other);
  });
  in_net_ = average;
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
                            concat("the weights are not put back after a use of their average; "
                                   "continue from a snapshot: ",
                                   error.what()));
  }
}

}  // namespace crema
