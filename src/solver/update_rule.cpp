#include "solver/update_rule.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/parallel.hpp"
#include "backend/update.hpp"
#include "core/dispatch.hpp"
#include "proto/solver.pb.h"

namespace crema {
namespace {

/// Chunks that are worth a thread.
constexpr int64_t kGrain = 4;

void find_learning_runs(const ParameterArena& arena, std::vector<UpdateRun>& runs) {
  runs.clear();
  int64_t chunks = 0;
  for (const ParameterArena::Segment& segment : arena.segments()) {
    const Parameter& parameter = *segment.parameter;
    if (!parameter.learnable || !parameter.needs_gradient) continue;
    if (parameter.lr_mult == 0 || segment.count == 0) continue;
    runs.push_back({segment.offset, segment.count, chunks, static_cast<double>(parameter.lr_mult),
                    static_cast<double>(parameter.decay_mult)});
    chunks += chunks_of(runs.back());
  }
}

/// True when all steps were finite.
template <class T, Regularization R>
bool sgd_chunk(const UpdateChunk& chunk, const SgdStep& step, const T* g, T* w, T* v) {
  const SgdMath<T, R> math(step, *chunk.run);
  T check = 0;
#pragma omp simd reduction(+ : check)
  for (int64_t i = chunk.begin; i < chunk.end; ++i) check += math.update(g[i], w[i], v[i]);
  return check == 0;
}

class Sgd : public UpdateRule {
 public:
  Sgd(Context& context, double momentum, double weight_decay, Regularization regularization)
      : UpdateRule(context),
        momentum_(momentum),
        weight_decay_(weight_decay),
        regularization_(regularization) {}

  int history_count() const override { return 1; }

  bool update(ParameterArena& arena, std::vector<Tensor>& history,
              const UpdateStep& step) override {
    const UpdateRuns runs = runs_of(arena);
    const SgdStep sgd{step.gradient_scale, weight_decay_, step.rate, momentum_};
    if (context().on_gpu()) {
      return device_sgd(context().backend(), runs, sgd, regularization_, arena.diff(), arena.data(),
                        history.at(0));
    }
    return dispatch_float(arena.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* g = arena.diff().host<T>();
      T* w = arena.data().host_mut<T>();
      T* v = history.at(0).host_mut<T>();
      const auto update_chunk = regularization_ == Regularization::l2
                                    ? sgd_chunk<T, Regularization::l2>
                                    : sgd_chunk<T, Regularization::l1>;
      std::atomic<bool> finite = true;
      parallel_for(runs.chunks, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t chunk = begin; chunk < end; ++chunk) {
          if (!update_chunk(runs.chunk(chunk), sgd, g, w, v)) finite = false;
        }
      });
      return finite.load();
    });
  }

 private:
  double momentum_, weight_decay_;
  Regularization regularization_;
};

/// The published spelling of the type that the deprecated enum means.
std::string type_name(const SolverParameter& param) {
  if (!param.has_solver_type()) return param.type();
  require(!param.has_type(), "the solver gives both type and the old solver_type; keep type");
  switch (param.solver_type()) {
    case SolverParameter::SGD:
      return "SGD";
    case SolverParameter::NESTEROV:
      return "Nesterov";
    case SolverParameter::ADAGRAD:
      return "AdaGrad";
    case SolverParameter::RMSPROP:
      return "RMSProp";
    case SolverParameter::ADADELTA:
      return "AdaDelta";
    case SolverParameter::ADAM:
      return "Adam";
    case SolverParameter::SAG:
      return "SAG";
  }
  return param.type();
}

Regularization regularization_of(const SolverParameter& param) {
  if (param.regularization_type() == "L2") return Regularization::l2;
  if (param.regularization_type() == "L1") return Regularization::l1;
  throw Error("regularization_type '", param.regularization_type(), "' is unknown; use L2 or L1");
}

}  // namespace

std::unique_ptr<UpdateRule> make_update_rule(const SolverParameter& param, Context& context) {
  const Regularization regularization = regularization_of(param);
  const std::string type = type_name(param);
  if (type == "SGD") {
    return std::make_unique<Sgd>(context, param.momentum(), param.weight_decay(), regularization);
  }
  throw Error("solver type '", type, "' is not available", did_you_mean(type, {"SGD"}),
              "; types are SGD");
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
    return std::sqrt(device_squares(context_.backend(), runs, arena.diff()));
  }
  return dispatch_float(arena.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = arena.diff().host<T>();
    // A sum a chunk, so that the result does not depend on the number of threads.
    std::vector<double> of_chunk(static_cast<size_t>(runs.chunks), 0.0);
    parallel_for(runs.chunks, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) {
        const UpdateChunk chunk = runs.chunk(number);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
          sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
        }
        of_chunk[static_cast<size_t>(number)] = sum;
      }
    });
    return std::sqrt(std::accumulate(of_chunk.begin(), of_chunk.end(), 0.0));
  });
}

}  // namespace crema
