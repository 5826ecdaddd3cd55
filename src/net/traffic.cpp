// Runs the actions of a program in thought, with a record of which copy of each tensor is current,
// as Memory keeps it.
#include "net/traffic.hpp"

#include <cstdio>
#include <map>

#include "core/host_part.hpp"
#include "crema/parameter.hpp"
#include "net/plan.hpp"

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
      describe(program_[program_.order[s]], steps[s]);
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

  void describe(const ProgramNode& node, StepTraffic& step) const {
    for (const Blob* blob : node.bottom_blobs) step.forward += blob->data.bytes();
    for (const Blob* blob : node.top_blobs) step.forward += blob->data.bytes();
    for (const Parameter* parameter : parameters_of(node)) step.forward += parameter->data.bytes();
    // The engines of devices are engines: what has none runs on the host.
    step.on_host = plan_.context->on_gpu() && node.option.engine == nullptr;
    const auto* part = dynamic_cast<const HasHostPart*>(node.layer);
    if (part != nullptr && plan_.context->on_gpu() && !step.on_host)
      step.host_part = part->host_part();
    if (!node.needs_backward) return;
    const BackwardReads reads = node.kernel->backward_reads();
    for (size_t i = 0; i < node.bottom_blobs.size(); ++i) {
      if (reads.bottom_data[i]) step.backward += node.bottom_blobs[i]->data.bytes();
      if (node.propagate[i]) step.backward += node.bottom_blobs[i]->data.bytes();
    }
    for (size_t t = 0; t < node.top_blobs.size(); ++t) {
      if (reads.top_data[t]) step.backward += node.top_blobs[t]->data.bytes();
      if (program_[node.makes[t]].has_gradient) step.backward += node.top_blobs[t]->data.bytes();
    }
    for (const Parameter* parameter : parameters_of(node))
      step.backward += parameter->data.bytes() * (parameter->needs_gradient ? 2 : 1);
  }

  static std::vector<const Parameter*> parameters_of(const ProgramNode& node) {
    std::vector<const Parameter*> all;
    for (const auto& parameter : node.layer->params()) all.push_back(parameter.get());
    if (node.is_conversion()) return all;
    for (const TailStep& step : node.node->tail) {
      if (step.scale != nullptr) all.push_back(step.scale);
      if (step.bias != nullptr) all.push_back(step.bias);
    }
    return all;
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
    const ProgramNode& node = program_[action.node];
    switch (action.kind) {
      case Action::Kind::forward:
        return run_forward(action, node, step);
      case Action::Kind::seed:
        return write(*action.into, action.into->count() <= 1);
      case Action::Kind::sum:
        for (const Tensor* part : action.parts) read(*part, false, step);
        return write(*action.into, false);
      case Action::Kind::backward:
        return run_backward(action, node, step.on_host, step);
      case Action::Kind::complete:
        return;
    }
  }

  void run_forward(const Action& action, const ProgramNode& node, StepTraffic& step) {
    const auto* const part =
        step.host_part.empty() ? nullptr : dynamic_cast<const HasHostPart*>(node.layer);
    for (size_t i = 0; i < action.bottoms.size(); ++i) {
      const bool on_host = part != nullptr && part->host_reads(static_cast<int>(i));
      read(action.bottoms[i]->data, step.on_host || on_host, step);
    }
    for (const Parameter* parameter : parameters_of(node))
      read(parameter->storage().get(), parameter->data.bytes(), step.on_host, step);
    for (const Blob* top : action.tops)
      write(top->data, step.on_host || (part != nullptr && part->host_writes()));
  }

  void run_backward(const Action& action, const ProgramNode& node, bool on_host,
                    StepTraffic& step) {
    const BackwardReads reads = node.kernel->backward_reads();
    for (size_t i = 0; i < action.bottoms.size(); ++i) {
      if (reads.bottom_data[i]) read(action.bottoms[i]->data, on_host, step);
    }
    for (size_t t = 0; t < action.tops.size(); ++t) {
      if (reads.top_data[t]) read(action.tops[t]->data, on_host, step);
      if (program_[node.makes[t]].has_gradient) read(action.tops[t]->diff, on_host, step);
    }
    for (size_t i = 0; i < action.bottoms.size(); ++i) {
      if (node.propagate[i]) write(action.bottoms[i]->diff, on_host);
    }
    for (const Parameter* parameter : parameters_of(node)) {
      read(parameter->storage().get(), parameter->data.bytes(), on_host, step);
      if (parameter->needs_gradient && on_host) step.to_device += parameter->data.bytes();
    }
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
