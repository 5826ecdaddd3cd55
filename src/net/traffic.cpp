// Runs the actions of a program in thought, with a record of which copy of each tensor is current,
// as Memory keeps it.
#include "net/traffic.hpp"

#include <cstdio>
#include <map>

#include "crema/parameter.hpp"
#include "net/plan.hpp"
#include "net/queued.hpp"

namespace crema {
namespace {

class Simulation {
 public:
  Simulation(const Plan& plan, std::vector<StepTraffic>& steps)
      : plan_(plan), program_(*plan.program), steps_(steps) {
    for (const Twin& twin : program_.twins) {
      if (twin.data != nullptr) owners_[&twin.blob.data] = twin.data;
      if (twin.diff != nullptr) owners_[&twin.blob.diff] = twin.diff;
    }
    for (size_t s = 0; s < program_.order.size(); ++s) {
      step_of_[program_.order[s]] = s;
      describe(s, steps[s]);
    }
  }

  /// A forward pass, and a backward pass and an update if the net trains.
  void run_iteration() {
    for (const Action& action : program_.forward) run(action);
    for (const Action& action : program_.backward) run(action);
    if (plan_.trains) update();
  }

 private:
  /// Which copies are current.
  struct State {
    bool host = false, device = false;
  };

  void describe(size_t s, StepTraffic& step) const {
    const ProgramNode& node = program_[program_.order[s]];
    step.forward = bytes_of(program_.forward[s]);
    for (const Parameter* parameter : parameters_of(node)) step.forward += parameter->data.bytes();
    // The engines of devices are engines: what has none runs on the host.
    step.on_host = plan_.context->on_gpu() && node.option.engine == nullptr;
    if (plan_.context->on_gpu() && !step.on_host) step.host_part = node.layer->host_part();
    if (!node.needs_backward) return;
    const auto [first, end] = program_.backward_of[s];
    for (size_t a = first; a < end; ++a) {
      const Action& action = program_.backward[a];
      if (action.kind == Action::Kind::backward) step.backward += bytes_of(action);
    }
    for (const Parameter* parameter : parameters_of(node))
      step.backward += parameter->data.bytes() * (parameter->needs_gradient ? 2 : 1);
  }

  size_t bytes_of(const Action& action) const {
    const Accesses all = accesses_of(program_, action);
    size_t bytes = 0;
    for (const Tensor* tensor : all.reads) bytes += tensor->bytes();
    for (const Tensor* tensor : all.writes) bytes += tensor->bytes();
    return bytes;
  }

  StepTraffic& step_of(const Action& action) { return steps_[step_of_.at(action.node)]; }

  const void* owner(const Tensor& tensor) const {
    const auto found = owners_.find(&tensor);
    return found != owners_.end() ? found->second : &tensor;
  }

  void read(const void* what, size_t bytes, bool on_host, StepTraffic& step) {
    State& state = states_[what];
    bool& here = on_host ? state.host : state.device;
    const bool there = on_host ? state.device : state.host;
    if (!here && there) (on_host ? step.to_host : step.to_device) += bytes;
    here = true;
  }
  void read(const Tensor& tensor, bool on_host, StepTraffic& step) {
    read(owner(tensor), tensor.bytes(), on_host, step);
  }
  void write(const void* what, bool on_host) { states_[what] = {on_host, !on_host}; }
  void write(const Tensor& tensor, bool on_host) { write(owner(tensor), on_host); }

  void run(const Action& action) {
    StepTraffic& step = step_of(action);
    const Accesses all = accesses_of(program_, action);
    const bool forward = action.kind == Action::Kind::forward;
    const bool on_host = runs_on_host(action, step);
    // Forward reads its bottoms, in their order.
    const Layer* const part = forward ? part_of(action, step) : nullptr;
    for (size_t i = 0; i < all.reads.size(); ++i) {
      const bool by_part = part != nullptr && part->host_reads(static_cast<int>(i));
      read(*all.reads[i], on_host || by_part, step);
    }
    const bool part_writes = part != nullptr && part->host_writes();
    for (const Tensor* tensor : all.writes) write(*tensor, on_host || part_writes);
    if (!forward && action.kind != Action::Kind::backward) return;
    for (const Parameter* parameter : parameters_of(program_[action.node])) {
      read(parameter->storage().get(), parameter->data.bytes(), on_host, step);
      // Gradients are added up on the device.
      if (!forward && parameter->needs_gradient && on_host)
        step.to_device += parameter->data.bytes();
    }
  }

  /// The layer if the step computes something on the host beside the device; else null.
  const Layer* part_of(const Action& action, const StepTraffic& step) const {
    return step.host_part.empty() ? nullptr : program_[action.node].layer;
  }

  bool runs_on_host(const Action& action, const StepTraffic& step) const {
    switch (action.kind) {
      case Action::Kind::forward:
      case Action::Kind::backward:
        return step.on_host;
      case Action::Kind::seed:
        return is_host_seed(plan_, action);
      case Action::Kind::sum:
      case Action::Kind::complete:
      case Action::Kind::losses:
      case Action::Kind::update:
        return false;
    }
    return false;
  }

  /// Parameters that learn are then current on the device alone.
  void update() {
    for (const NodeId id : program_.order) {
      for (const Parameter* parameter : parameters_of(program_[id])) {
        if (parameter->needs_gradient) write(parameter->storage().get(), false);
      }
    }
  }

  const Plan& plan_;
  const Program& program_;
  std::vector<StepTraffic>& steps_;
  std::map<NodeId, size_t> step_of_;
  std::map<const Tensor*, const Tensor*> owners_;
  std::map<const void*, State> states_;
};

std::string megabytes(size_t bytes) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, bytes < 100000 ? "%.4f MB" : "%.1f MB",
                static_cast<double>(bytes) / 1e6);
  return buffer;
}

}  // namespace

std::string placement(const StepTraffic& step) {
  std::vector<std::string> parts;
  if (step.on_host) parts.emplace_back("on the host");
  if (!step.host_part.empty()) parts.push_back(step.host_part + " on the host");
  if (step.to_host > 0 && step.to_device > 0) {
    parts.push_back(text(megabytes(step.to_host), " from the device and ",
                         megabytes(step.to_device), " to it"));
  } else if (step.to_host > 0) {
    parts.push_back(text(megabytes(step.to_host), " from the device"));
  } else if (step.to_device > 0) {
    parts.push_back(text(megabytes(step.to_device), " to the device"));
  }
  return joined(parts, ", ");
}

std::vector<StepTraffic> step_traffic(const Net& net) {
  const Plan& plan = Plan::of(net);
  std::vector<StepTraffic> steps(net.steps().size());
  if (plan.program == nullptr) return steps;
  Simulation simulation(plan, steps);
  if (!plan.context->on_gpu()) return steps;
  // The first iteration moves what stays, such as weights.
  simulation.run_iteration();
  for (StepTraffic& step : steps) step.to_host = step.to_device = 0;
  simulation.run_iteration();
  return steps;
}

}  // namespace crema
