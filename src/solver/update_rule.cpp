#include "solver/update_rule.hpp"

#include <strings.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "backend/cpu/update.hpp"
#include "backend/update.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"

namespace crema {
namespace {

void find_learning_runs(const ParameterArena& arena, std::vector<UpdateRun>& runs) {
  runs.clear();
  int64_t chunks = 0;
  for (const ParameterArena::Segment& segment : arena.segments()) {
    const Parameter& parameter = *segment.parameter;
    if (!learns(parameter)) continue;
    runs.push_back({segment.offset, segment.count, chunks, static_cast<double>(parameter.lr_mult),
                    static_cast<double>(parameter.decay_mult)});
    chunks += chunks_of(runs.back());
  }
}

/// A rule of AnyUpdateRule before it is made for an iteration.
struct RuleKind {
  std::string_view name;
  int histories;
  AnyUpdateRule (*make)(const UpdateSettings& settings, int iteration);
};

template <class... Rules>
constexpr std::array<RuleKind, sizeof...(Rules)> kinds_of(
    std::type_identity<std::variant<Rules...>>) {
  return {{{Rules::kName, Rules::kHistories,
            [](const UpdateSettings& settings, int iteration) -> AnyUpdateRule {
              return Rules(settings, iteration);
            }}...}};
}

constexpr auto kRules = kinds_of(std::type_identity<AnyUpdateRule>());

Regularization regularization_of(const SolverParameter& param, const SourceMap& source) {
  if (param.regularization_type() == "L2") return Regularization::l2;
  if (param.regularization_type() == "L1") return Regularization::l1;
  throw Error("regularization_type '", param.regularization_type(), "' is unknown; use L2 or L1")
      .at(source.position("regularization_type"));
}

size_t kind_of(const SolverParameter& param, const SourceMap& source) {
  // The deprecated enum has the same names in capitals.
  const bool is_old = param.has_solver_type();
  if (is_old && param.has_type())
    throw Error("the solver gives both type and the old solver_type; keep type")
        .at(source.position("solver_type"));
  const std::string& type =
      is_old ? SolverParameter::SolverType_Name(param.solver_type()) : param.type();
  std::vector<std::string> names;
  for (const RuleKind& kind : kRules) {
    const std::string& name = names.emplace_back(kind.name);
    if (name == type || (is_old && strcasecmp(name.c_str(), type.c_str()) == 0))
      return names.size() - 1;
  }
  throw Error("solver type '", type, "' is not available", did_you_mean(type, names, "types are"))
      .at(source.position(is_old ? "solver_type" : "type"));
}

UpdateSettings settings_of(const SolverParameter& param, const SourceMap& source) {
  return {.momentum = param.momentum(),
          .momentum2 = param.momentum2(),
          .rms_decay = param.rms_decay(),
          .delta = param.delta(),
          .weight_decay = param.weight_decay(),
          .regularization = regularization_of(param, source)};
}

}  // namespace

bool learns(const Parameter& parameter) {
  return parameter.learnable && parameter.needs_gradient && parameter.lr_mult != 0 &&
         parameter.shape().count() > 0;
}

UpdateArrays update_arrays(DeviceBackend& backend, const ParameterArena& arena,
                           std::vector<Tensor>* history) {
  UpdateArrays arrays{.dtype = arena.dtype()};
  dispatch_float(arena.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (const ParameterArena::Segment& segment : arena.segments()) {
      if (!learns(*segment.parameter)) continue;
      arrays.gradients = segment.parameter->diff.device<T>(backend) - segment.offset;
      if (history == nullptr) continue;
      arrays.parameters = segment.parameter->data.device_mut<T>(backend) - segment.offset;
    }
    if (history == nullptr) return;
    for (Tensor& values : *history) arrays.histories.push_back(values.device_mut<T>(backend));
  });
  return arrays;
}

UpdateRule::UpdateRule(const SolverParameter& param, Context& context, const SourceMap& source)
    : context_(context), settings_(settings_of(param, source)), kind_(kind_of(param, source)) {}

int UpdateRule::history_count() const { return kRules[kind_].histories; }

bool UpdateRule::update(ParameterArena& arena, std::vector<Tensor>& history,
                        const UpdateStep& step) {
  const UpdateRuns runs = runs_of(arena);
  const AnyUpdateRule any = kRules[kind_].make(settings_, step.iteration);
  if (context_.on_gpu()) {
    return device_update(context_.backend(), runs, any, settings_, step,
                         update_arrays(context_.backend(), arena, &history));
  }
  const ThreadScope threads(context_.threads());
  return std::visit(
      [&](const auto& rule) {
        return cpu_update(runs, rule, settings_, step, arena.diff(), arena.data(), history);
      },
      any);
}

UpdateRuns UpdateRule::runs_of(const ParameterArena& arena) {
  find_learning_runs(arena, found_);
  const bool changed = found_ != runs_;
  if (changed) runs_.swap(found_);
  UpdateRuns result{runs_.data(), static_cast<int64_t>(runs_.size()), 0};
  if (runs_.empty()) return result;
  result.chunks = runs_.back().first_chunk + chunks_of(runs_.back());
  if (!context_.on_gpu()) return result;
  if (changed) {
    const size_t bytes = runs_.size() * sizeof(UpdateRun);
    device_runs_.reshape(Shape{static_cast<int64_t>(bytes)});
    std::memcpy(device_runs_.host_overwrite<uint8_t>(), runs_.data(), bytes);
  }
  result.runs =
      reinterpret_cast<const UpdateRun*>(device_runs_.device<uint8_t>(context_.backend()));
  return result;
}

double UpdateRule::gradient_norm(ParameterArena& arena) {
  const UpdateRuns runs = runs_of(arena);
  if (context_.on_gpu()) {
    return std::sqrt(device_squares(context_.backend(), runs,
                                    update_arrays(context_.backend(), arena, nullptr)));
  }
  const ThreadScope threads(context_.threads());
  dispatch_float(arena.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = arena.diff().host<T>();
    // A sum a chunk, so that the result does not depend on the number of threads.
    squares_.resize(static_cast<size_t>(runs.chunks));
    parallel_for(runs.chunks, kUpdateGrain, [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) {
        const UpdateChunk chunk = runs.chunk(number);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
          sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
        }
        squares_[static_cast<size_t>(number)] = sum;
      }
    });
  });
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

}  // namespace crema
