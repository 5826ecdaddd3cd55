#include "layer_support/product_choice.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/device_timer.hpp"
#include "core/tuner.hpp"

namespace crema {
namespace {

/// A way by one of its algorithms.
struct ProductTry {
  size_t way;
  std::string algorithm;
};

std::string name_of(const ProductWay& way, const std::string& algorithm) {
  return text(way.form, " ", algorithm);
}

bool has_vector(const DeviceProduct& product) {
  return product.ending != ProductEnding::none && product.ending != ProductEnding::relu;
}

/// Device memory for measuring, of small ordinary numbers: zeros have other times, and so have
/// values that are not finite.
class TrialMemory {
 public:
  TrialMemory(DeviceBackend& backend, int64_t count, DType dtype) : backend_(backend) {
    const size_t words =
        (static_cast<size_t>(count) * size_of(dtype) + sizeof(float) - 1) / sizeof(float);
    memory_ = backend.allocate(words * sizeof(float));
    // In each byte: 0.01 in f16, 0.0115 in bf16 and f32.
    const float ordinary = std::bit_cast<float>(dtype == DType::f16 ? 0x21212121U : 0x3c3c3c3cU);
    backend.fill(DType::f32, static_cast<int64_t>(words), static_cast<double>(ordinary), false,
                 memory_);
  }
  ~TrialMemory() { backend_.release(memory_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  DeviceBackend& backend_;
  void* memory_ = nullptr;
};

/// Seconds of one run on the device: the least of a few rounds of several. For a device without a
/// clock, as that of the tests, all take as long, and nothing runs.
double device_seconds(DeviceBackend& backend, const std::function<void()>& run) {
  constexpr int kRounds = 3, kRuns = 3;
  constexpr double kWithoutClock = 1e-6, kSecondsOfMs = 1e-3;
  const std::unique_ptr<DeviceTimer> timer = backend.make_timer(2);
  if (timer == nullptr) return kWithoutClock;
  run();  // may load code
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    timer->record(0);
    for (int i = 0; i < kRuns; ++i) run();
    timer->record(1);
    backend.synchronize();
    least = std::min(least, timer->milliseconds(0, 1) * kSecondsOfMs / kRuns);
  }
  return least;
}

double measure(DeviceBackend& backend, const ProductWay& way, ProductPlan& plan) {
  const DeviceProduct& p = way.product;
  const auto elements = [&](int64_t rows, int64_t columns, int64_t stride) {
    return rows * columns + (p.batch - 1) * stride;
  };
  const TrialMemory a(backend, elements(p.m, p.k, p.a_stride), p.factors);
  const TrialMemory b(backend, elements(p.k, p.n, p.b_stride), p.factors);
  const TrialMemory c(backend, elements(p.m, p.n, p.c_stride), p.result);
  const TrialMemory vector(backend, std::max(p.m, p.n), DType::f32);
  const ProductOperands operands{.a = a.get(), .b = b.get(), .c = c.get(), .vector = vector.get()};
  ProductOperands of_plan = operands;
  if (!has_vector(p)) of_plan.vector = nullptr;
  return device_seconds(backend, [&] {
    plan.run(of_plan);
    if (way.beside) way.beside(operands);
  });
}

std::optional<ChosenProduct> take(const Layer& layer, const std::vector<ProductWay>& ways,
                                  const ProductTry& tried, double seconds, std::string& why) {
  const ProductWay& way = ways[tried.way];
  auto plan = make_product_plan(layer.context().backend(), way.product, layer.arithmetic(),
                                tried.algorithm, why);
  if (plan == nullptr) return std::nullopt;
  return ChosenProduct{tried.way, name_of(way, tried.algorithm),
                       std::isfinite(seconds) ? seconds : 0, std::move(plan)};
}

}  // namespace

std::string product_family(const Layer& layer, DType factors) {
  const std::string library = product_library(layer.context().backend());
  return factors == DType::f32 ? text(library, ", ", to_string(layer.arithmetic().math)) : library;
}

std::optional<ChosenProduct> choose_product(const Layer& layer, const TunedProblem& problem,
                                            const std::vector<ProductWay>& ways, std::string& why) {
  DeviceBackend& backend = layer.context().backend();
  std::vector<ProductTry> tries;
  std::vector<TunedCandidate> candidates;
  for (size_t i = 0; i < ways.size(); ++i) {
    std::string reason;
    for (std::string& algorithm :
         product_algorithms(backend, ways[i].product, layer.arithmetic(), reason)) {
      candidates.push_back({name_of(ways[i], algorithm), {}, [&, i, algorithm] {
                              constexpr double kNever = std::numeric_limits<double>::infinity();
                              std::string refusal;
                              const auto plan = make_product_plan(
                                  backend, ways[i].product, layer.arithmetic(), algorithm, refusal);
                              if (plan == nullptr) return kNever;
                              try {
                                return measure(backend, ways[i], *plan);
                              } catch (const Error&) {
                                // Such as memory that is not there. A device that is out of order
                                // says so.
                                backend.synchronize();
                                return kNever;
                              }
                            }});
      tries.push_back({i, std::move(algorithm)});
    }
    if (!reason.empty() && why.empty()) why = reason;
  }
  if (tries.empty()) return std::nullopt;
  const auto [best, seconds, by] = choose_candidate(layer.context(), problem, candidates);
  if (auto chosen = take(layer, ways, tries[best], seconds, why)) return chosen;
  for (const ProductTry& one : tries) {
    if (auto chosen = take(layer, ways, one, 0, why)) return chosen;
  }
  return std::nullopt;
}

std::optional<ChosenProduct> choose_named_product(const Layer& layer, const TunedProblem& problem,
                                                  const std::vector<ProductWay>& ways,
                                                  const std::string& name, std::string& why) {
  const auto take_first = [&](const std::vector<ProductTry>& tries) {
    std::optional<ChosenProduct> chosen;
    for (size_t i = 0; i < tries.size() && !chosen; ++i) {
      chosen = take(layer, ways, tries[i], 0, why);
    }
    if (chosen) layer.context().tuner().choose(problem.name(), chosen->name);
    return chosen;
  };
  std::vector<ProductTry> named, others;
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::string before = ways[i].form + " ";
    if (name.starts_with(before)) named.push_back({i, name.substr(before.size())});
  }
  if (auto chosen = take_first(named)) return chosen;
  for (size_t i = 0; i < ways.size(); ++i) {
    for (std::string& algorithm :
         product_algorithms(layer.context().backend(), ways[i].product, layer.arithmetic(), why)) {
      others.push_back({i, std::move(algorithm)});
    }
  }
  return take_first(others);
}

std::string form_of(const std::string& name) { return name.substr(0, name.find_first_of(" @")); }

}  // namespace crema
