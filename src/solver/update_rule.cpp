#include "solver/update_rule.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "proto/solver.pb.h"

namespace crema {
namespace {

/// Elements of the arena that one thread takes at a time at the least.
constexpr int64_t kGrain = 16384;

bool learns(const ParameterArena::Segment& segment) {
  return segment.parameter->learnable && segment.lr_mult != 0;
}

/// Runs body(segment, begin, end) over the parts of learning segments, in parallel over the arena.
template <class Body>
void for_learning_parts(const ParameterArena& arena, const Body& body) {
  const auto& segments = arena.segments();
  parallel_for(arena.size(), kGrain, [&](int64_t begin, int64_t end) {
    auto segment = std::partition_point(
        segments.begin(), segments.end(),
        [&](const auto& candidate) { return candidate.offset + candidate.count <= begin; });
    for (; segment != segments.end() && segment->offset < end; ++segment) {
      if (!learns(*segment)) continue;
      body(*segment, std::max(begin, segment->offset),
           std::min(end, segment->offset + segment->count));
    }
  });
}

enum class Regularization { l2, l1 };

struct SgdConstants {
  double gradient_scale, decay, rate, momentum;
  Regularization regularization;
};

/// v = momentum * v + rate * (scale * g + decay * w); w -= v. True when all steps were finite.
template <class T, Regularization R>
bool sgd_part(int64_t count, const SgdConstants& constants, const T* g, T* w, T* v) {
  const T scale = static_cast<T>(constants.gradient_scale), decay = static_cast<T>(constants.decay);
  const T rate = static_cast<T>(constants.rate), momentum = static_cast<T>(constants.momentum);
  // Zero as long as each step is finite; adds nothing to the cost of a pass bound by memory.
  T check = 0;
#pragma omp simd reduction(+ : check)
  for (int64_t i = 0; i < count; ++i) {
    const T sign = static_cast<T>((w[i] > 0) - (w[i] < 0));
    const T penalty = R == Regularization::l2 ? w[i] : sign;
    const T step = momentum * v[i] + rate * (scale * g[i] + decay * penalty);
    v[i] = step;
    w[i] -= step;
    check += step - step;
  }
  return check == 0;
}

class Sgd : public UpdateRule {
 public:
  Sgd(double momentum, double weight_decay, Regularization regularization)
      : momentum_(momentum), weight_decay_(weight_decay), regularization_(regularization) {}

  int history_count() const override { return 1; }

  bool update(ParameterArena& arena, std::vector<Tensor>& history,
              const UpdateStep& step) override {
    return dispatch_float(arena.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* g = arena.diff().host<T>();
      T* w = arena.data().host_mut<T>();
      T* v = history.at(0).host_mut<T>();
      std::atomic<bool> finite = true;
      for_learning_parts(arena, [&](const auto& segment, int64_t begin, int64_t end) {
        const SgdConstants constants{step.gradient_scale, weight_decay_ * segment.decay_mult,
                                     step.rate * segment.lr_mult, momentum_, regularization_};
        const auto part = regularization_ == Regularization::l2 ? sgd_part<T, Regularization::l2>
                                                                : sgd_part<T, Regularization::l1>;
        if (!part(end - begin, constants, g + begin, w + begin, v + begin)) finite = false;
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

std::unique_ptr<UpdateRule> make_update_rule(const SolverParameter& param) {
  const Regularization regularization = regularization_of(param);
  const std::string type = type_name(param);
  if (type == "SGD") {
    return std::make_unique<Sgd>(param.momentum(), param.weight_decay(), regularization);
  }
  const std::string hint = nearest_name(type, {"SGD"});
  throw Error("solver type '", type, "' is not available",
              hint.empty() ? "" : "; did you mean '" + hint + "'?", " Types: SGD");
}

double gradient_norm(ParameterArena& arena) {
  return dispatch_float(arena.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* g = arena.diff().host<T>();
    double sum = 0;
    for (const auto& segment : arena.segments()) {
      if (!learns(segment)) continue;
      // Partial sums of fixed length, so that the result does not depend on the number of threads.
      const int64_t pieces = (segment.count + kGrain - 1) / kGrain;
      std::vector<double> partial(static_cast<size_t>(pieces), 0.0);
      parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p) {
          const T* from = g + segment.offset + p * kGrain;
          const int64_t count = std::min(kGrain, segment.count - p * kGrain);
          double total = 0;
          for (int64_t i = 0; i < count; ++i) {
            total += static_cast<double>(from[i]) * static_cast<double>(from[i]);
          }
          partial[static_cast<size_t>(p)] = total;
        }
      });
      for (double value : partial) sum += value;
    }
    return std::sqrt(sum);
  });
}

}  // namespace crema
