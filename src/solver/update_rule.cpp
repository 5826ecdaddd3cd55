#include "solver/update_rule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "backend/cpu/update.hpp"
#include "backend/update.hpp"
#include "core/device_run.hpp"
#include "core/dispatch.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"

namespace crema {
namespace {

void add_learning_run(const ParameterArena::Segment& segment, std::vector<UpdateRun>& runs) {
  const Parameter& parameter = *segment.parameter;
  if (!learns(parameter)) return;
  const int64_t chunks = runs.empty() ? 0 : runs.back().first_chunk + chunks_of(runs.back());
  runs.push_back({segment.offset, segment.count, chunks, static_cast<double>(parameter.lr_mult),
                  static_cast<double>(parameter.decay_mult)});
}

/// A rule of AnyUpdateRule before it is made for an iteration.
struct RuleKind {
  std::string_view name;
  int histories;
  RuleDefaults defaults;
  bool reads_momentum, reads_momentum2, reads_rms_decay, reads_delta, amsgrad;
  LocalRate local_rate;
  AnyUpdateRule (*make)(const UpdateSettings& settings, int iteration);
};

template <class... Rules>
constexpr std::array<RuleKind, sizeof...(Rules)> kinds_of(
    std::type_identity<std::variant<Rules...>>) {
  return {{{Rules::kName, Rules::kHistories, Rules::kDefaults, Rules::kReadsMomentum,
            Rules::kReadsMomentum2, Rules::kReadsRmsDecay, Rules::kReadsDelta, Rules::kAmsgrad,
            Rules::kLocalRate, [](const UpdateSettings& settings, int iteration) -> AnyUpdateRule {
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
  const bool is_old = param.has_solver_type();
  if (is_old && param.has_type())
    throw Error("the solver gives both type and the old solver_type; keep type")
        .at(source.position("solver_type"));
  const std::string successor = is_old ? successor_of_solver_type(param) : param.type();
  const std::string& type =
      successor.empty() ? SolverParameter::SolverType_Name(param.solver_type()) : successor;
  std::vector<std::string> names, with_amsgrad;
  for (const RuleKind& kind : kRules) {
    if (kind.name == type && kind.amsgrad == param.amsgrad())
      return static_cast<size_t>(&kind - kRules.data());
    (kind.amsgrad ? with_amsgrad : names).emplace_back(kind.name);
  }
  if (std::ranges::count(names, type) != 0)
    throw Error("solver type '", type, "': amsgrad true cannot be used with this type; remove it, ",
                "or set type to ", joined(with_amsgrad, " or "))
        .at(source.position("amsgrad"));
  throw Error("solver type '", type, "' is not available", did_you_mean(type, names, "types are"))
      .at(source.position(is_old ? "solver_type" : "type"));
}

/// What the rule reads has to make sense; as published, what would make another rule of it is
/// refused.
void check_rule(const SolverParameter& param, const RuleKind& kind, const UpdateSettings& settings,
                const SourceMap& source) {
  const auto refuse = [&](const char* field, auto value, auto... why) {
    throw Error("solver type '", kind.name, "': ", field, " ", value, why...)
        .at(source.position(field));
  };
  if (!kind.reads_momentum && param.momentum() != 0)
    refuse("momentum", param.momentum(), " cannot be used with this type; remove it");
  if (!kind.reads_momentum && param.momentum_policy() != "fixed")
    refuse("momentum_policy", text("'", param.momentum_policy(), "'"),
           " cannot be used with this type, which has no momentum; remove it");
  const auto fraction = [&](const char* field, double value) {
    if (!(value >= 0 && value < 1)) refuse(field, value, " must lie in [0, 1)");
  };
  if (kind.reads_momentum) fraction("momentum", settings.momentum);
  if (kind.reads_momentum2) fraction("momentum2", settings.momentum2);
  if (kind.reads_rms_decay) fraction("rms_decay", settings.rms_decay);
  if (kind.reads_delta && !(settings.delta > 0))
    refuse("delta", settings.delta,
           " must be positive, so that nothing is divided by 0; leave it out for ",
           kind.defaults.delta);
  const char* const local = param.larc() ? "larc" : "local_lr_auto";
  if ((param.larc() || param.local_lr_auto()) && kind.local_rate != LocalRate::none)
    refuse(local, "true", " is part of this type already; remove it");
  if (settings.local_rate == LocalRate::none || settings.local_rate == LocalRate::trust) return;
  const bool is_auto = param.local_lr_auto() && !param.larc();
  if (!(settings.local_eta > 0))
    refuse(is_auto ? "local_gw_ratio" : "larc_eta", settings.local_eta, " must be positive");
}

LocalRate local_rate_of(const SolverParameter& param, const RuleKind& kind,
                        const SourceMap& source) {
  const std::vector<std::string> policies = {"scale", "clip"};
  const std::string& policy = param.larc_policy();
  if (policy != "scale" && policy != "clip")
    throw Error("larc_policy '", policy, "' is unknown",
                did_you_mean(policy, policies, "policies are"))
        .at(source.position("larc_policy"));
  if (kind.local_rate != LocalRate::none) return kind.local_rate;
  if (param.larc()) return policy == "clip" ? LocalRate::larc_clip : LocalRate::larc_scale;
  return param.local_lr_auto() ? LocalRate::automatic : LocalRate::none;
}

UpdateSettings settings_of(const SolverParameter& param, const RuleKind& kind,
                           const SourceMap& source) {
  const auto given = [](bool has, double value, double otherwise) {
    return has ? value : otherwise;
  };
  const RuleDefaults& defaults = kind.defaults;
  UpdateSettings settings = {
      .momentum = given(param.has_momentum(), param.momentum(), defaults.momentum),
      .momentum2 = given(param.has_momentum2(), param.momentum2(), defaults.momentum2),
      .rms_decay = param.rms_decay(),
      .delta = given(param.has_delta(), param.delta(), defaults.delta),
      .weight_decay = param.weight_decay(),
      .regularization = regularization_of(param, source),
      .local_rate = local_rate_of(param, kind, source),
      .local_eta =
          param.local_lr_auto() && !param.larc() ? param.local_gw_ratio() : param.larc_eta()};
  if (param.clip_gradient_value() > 0) settings.clip_value = param.clip_gradient_value();
  check_rule(param, kind, settings, source);
  return settings;
}

}  // namespace

bool learns(const Parameter& parameter) {
  return parameter.learnable && parameter.needs_gradient && parameter.lr_mult != 0 &&
         parameter.shape().count() > 0;
}

Tensor part_of(const Tensor& array, const ParameterArena::Segment& segment) {
  if (!array.has_memory()) array.read_bytes();  // takes memory where nothing was written yet
  Tensor part(segment.parameter->shape(), array.dtype());
  part.bind(array.memory(),
            array.offset() + static_cast<size_t>(segment.offset) * size_of(array.dtype()));
  return part;
}

UpdateArrays update_arrays(DeviceBackend& backend, const ParameterArena& arena,
                           std::vector<Tensor>& history, Tensor* average) {
  UpdateArrays arrays{.dtype = arena.dtype()};
  dispatch_float(arena.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (const ParameterArena::Segment& segment : arena.segments()) {
      if (!learns(*segment.parameter)) continue;
      arrays.gradients = segment.parameter->diff.read<T>(&backend) - segment.offset;
      arrays.parameters = segment.parameter->data.change<T>(&backend) - segment.offset;
    }
    for (Tensor& values : history) arrays.histories.push_back(values.change<T>(&backend));
    if (average != nullptr) arrays.average = average->change<T>(&backend);
  });
  return arrays;
}

UpdateRule::UpdateRule(const SolverParameter& param, Context& context, const SourceMap& source)
    : context_(context),
      kind_(kind_of(param, source)),
      settings_(settings_of(param, kRules[kind_], source)) {}

std::vector<std::string> UpdateRule::names(int histories) {
  std::vector<std::string> names;
  for (const RuleKind& kind : kRules) {
    if (kind.histories == histories)
      names.push_back(text(kind.name, kind.amsgrad ? " with amsgrad: true" : ""));
  }
  return names;
}

std::string UpdateRule::name() const { return std::string(kRules[kind_].name); }

int UpdateRule::history_count() const { return kRules[kind_].histories; }

std::vector<std::string> UpdateRule::notes(const SolverParameter& param) const {
  std::vector<std::string> notes;
  const RuleKind& kind = kRules[kind_];
  const auto without_effect = [&](bool given, bool read, const char* field) {
    if (given && !read)
      notes.push_back(text("the solver's ", field, " has no effect with type '", kind.name, "'"));
  };
  without_effect(param.has_momentum2(), kind.reads_momentum2, "momentum2");
  without_effect(param.has_rms_decay(), kind.reads_rms_decay, "rms_decay");
  without_effect(param.has_delta(), kind.reads_delta, "delta");
  const bool is_larc = param.larc(), is_auto = param.local_lr_auto() && !is_larc;
  // LARS and LAMB have rates of their own, and LARS reads larc_eta for them.
  const bool has_own = kind.local_rate != LocalRate::none;
  const auto of_local_rate = [&](bool given, bool read, const char* field, const char* switched) {
    if (given && !read)
      notes.push_back(text("the solver's ", field, " has no effect with",
                           has_own ? text(" type '", kind.name, "'") : text("out ", switched)));
  };
  of_local_rate(param.has_larc_eta(), is_larc || kind.local_rate == LocalRate::scale, "larc_eta",
                "larc: true");
  of_local_rate(param.has_larc_policy(), is_larc, "larc_policy", "larc: true");
  of_local_rate(param.has_local_gw_ratio(), is_auto, "local_gw_ratio",
                is_larc ? "local_lr_auto in place of larc" : "local_lr_auto: true");
  if (is_larc && param.local_lr_auto())
    notes.emplace_back("the solver's local_lr_auto has no effect beside larc: true; keep one");
  if (kind.histories >= 2 && settings_.momentum == 0 && param.momentum_policy() == "fixed")
    notes.push_back(text("solver type '", kind.name, "' without momentum averages nothing; add ",
                         kind.reads_momentum2 ? "momentum: 0.9" : "momentum: 0.95"));
  return notes;
}

template <class Rule>
void UpdateRule::find_rates(const UpdateRuns& runs, const Rule& rule,
                            const UpdateSettings& settings, const UpdateStep& step,
                            ParameterArena& arena, std::vector<Tensor>& history) {
  of_run_.assign(runs_.size(), {});
  if constexpr (Rule::kLocalRate == LocalRate::trust) {
    cpu_squares(runs, rule, settings, step, arena.diff(), arena.data(), history, of_chunk_,
                of_run_);
  } else if (settings.local_rate != LocalRate::none) {
    UpdateSettings of_gradient = settings;
    of_gradient.weight_decay = 0;
    cpu_squares(runs, GradientAsStep(), of_gradient, step, arena.diff(), arena.data(), history,
                of_chunk_, of_run_);
  }
  rates_.clear();
  for (size_t run = 0; run < runs_.size(); ++run) {
    rates_.push_back(rate_of(settings, step.rate, runs_[run], of_run_[run]));
  }
}

AnyUpdateRule UpdateRule::rule_at(const UpdateStep& step, UpdateSettings& settings) const {
  settings = settings_;
  settings.momentum = step.momentum.value_or(settings.momentum);
  settings.weight_decay = step.weight_decay.value_or(settings.weight_decay);
  return kRules[kind_].make(settings, step.iteration);
}

bool UpdateRule::update(ParameterArena& arena, std::vector<Tensor>& history, const UpdateStep& step,
                        Tensor* average) {
  if (context_.on_gpu()) {
    queue_update(arena, history, step, 0, nullptr, average);
    const bool finite = context_.device_run().report().failure == DeviceFailure::none;
    if (!finite) context_.device_run().clear();
    return finite;
  }
  return update_runs(runs_of(arena), arena, history, step, average);
}

bool UpdateRule::update_part(const std::vector<size_t>& segments, ParameterArena& arena,
                             std::vector<Tensor>& history, const UpdateStep& step,
                             Tensor* average) {
  runs_.clear();
  for (const size_t segment : segments) add_learning_run(arena.segments()[segment], runs_);
  return runs_.empty() || update_runs(known_runs(), arena, history, step, average);
}

bool UpdateRule::update_runs(const UpdateRuns& runs, ParameterArena& arena,
                             std::vector<Tensor>& history, const UpdateStep& step,
                             Tensor* average) {
  UpdateSettings settings;
  const AnyUpdateRule any = rule_at(step, settings);
  const ThreadScope threads(context_.threads());
  return std::visit(
      [&](const auto& rule) {
        find_rates(runs, rule, settings, step, arena, history);
        return cpu_update(runs, rule, settings, step, rates_, arena.diff(), arena.data(), history,
                          average);
      },
      any);
}

void UpdateRule::queue_update(ParameterArena& arena, std::vector<Tensor>& history,
                              const UpdateStep& step, double most_norm, LossScaleState* loss_scale,
                              Tensor* average) {
  prepare_update(arena, step, most_norm);
  queue_prepared(arena, history, loss_scale, average);
}

void UpdateRule::prepare_update(const ParameterArena& arena, const UpdateStep& step,
                                double most_norm) {
  if (runs_of(arena).chunks == 0) return;
  numbers_ = {.step = step, .most_norm = most_norm};
  prepared_ = rule_at(step, numbers_.settings);
  std::visit(
      [&]<class Rule>(const Rule& rule) {
        const UpdateBlock<Rule> block{numbers_, rule};
        static_assert(std::is_trivially_copyable_v<UpdateBlock<Rule>>);
        static_assert(sizeof block <= kUpdateBlockBytes);
        std::memcpy(device_block_.overwrite<uint8_t>(), &block, sizeof block);
      },
      prepared_);
  device_block_.read<uint8_t>(&context_.backend());
}

void UpdateRule::queue_prepared(ParameterArena& arena, std::vector<Tensor>& history,
                                LossScaleState* loss_scale, Tensor* average) {
  DeviceBackend& backend = context_.backend();
  DeviceUpdate update{
      .runs = known_runs(), .run = context_.device_run().block(), .loss_scale = loss_scale};
  // A record has the number of runs and chunks in it, or no update where nothing learns.
  Memory& runs = *device_runs_.memory();
  runs.note_derived(runs.version());
  if (update.runs.chunks == 0) return;
  update.runs.runs = reinterpret_cast<const UpdateRun*>(device_runs_.read<uint8_t>(&backend));
  update.block = device_block_.change<uint8_t>(&backend);
  update.copies = copies_.prepare(arena, context_.device_run(), backend);
  update.arrays = update_arrays(backend, arena, history, average);
  device_update(backend, update, prepared_, numbers_);
  copies_.finish();
}

UpdateRuns UpdateRule::known_runs() const {
  UpdateRuns result{runs_.data(), static_cast<int64_t>(runs_.size()), 0};
  if (!runs_.empty()) result.chunks = runs_.back().first_chunk + chunks_of(runs_.back());
  return result;
}

UpdateRuns UpdateRule::runs_of(const ParameterArena& arena) {
  found_.clear();
  for (const ParameterArena::Segment& segment : arena.segments()) add_learning_run(segment, found_);
  const bool changed = found_ != runs_;
  if (changed) runs_.swap(found_);
  UpdateRuns result = known_runs();
  if (!context_.on_gpu()) return result;
  if (changed || !device_runs_.has_memory()) {
    // Another version also where nothing learns any more.
    const size_t bytes = runs_.size() * sizeof(UpdateRun);
    device_runs_.reshape(Shape{static_cast<int64_t>(std::max(bytes, sizeof(UpdateRun)))});
    uint8_t* const to = device_runs_.overwrite<uint8_t>();
    if (!runs_.empty()) std::memcpy(to, runs_.data(), bytes);
    device_runs_.seal();
  }
  result.runs = reinterpret_cast<const UpdateRun*>(device_runs_.read<uint8_t>(&context_.backend()));
  return result;
}

double UpdateRule::gradient_norm(ParameterArena& arena) {
  const UpdateRuns runs = runs_of(arena);
  const ThreadScope threads(context_.threads());
  dispatch_float(arena.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = arena.diff().read<T>();
    // A sum a chunk, so that the result does not depend on the number of threads.
    squares_.resize(static_cast<size_t>(runs.chunks));
    parallel_for(runs.chunks, kUpdateGrain, [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) {
        const UpdateChunk chunk = runs.chunk(number);
        squares_[static_cast<size_t>(number)] =
            squares_of(g + chunk.begin, chunk.end - chunk.begin);
      }
    });
  });
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

}  // namespace crema
