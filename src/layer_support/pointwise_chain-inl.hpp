// The kernel of a chain of pointwise layers (core/pointwise_chain.hpp). For the source that CMake
// writes (scripts/cmake/rooms.cmake), with the mathematics of all pointwise rooms of the tree.
//
// A body has the list of operations among its arguments, and each thread follows the list for eight
// values in registers. All threads take the same branches. Values are f32 between the operations,
// however memory stores what is read and written: a chain rounds to 16 bits once, at its end.
//
// Backward computes again what it reads of the values inside of the chain, from its bottoms, by the
// same operations as forward. So these values are never stored, and what it keeps of them in
// registers is limited (kMostKept).
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "layer_support/dropout_math.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/pointwise_chain.hpp"

namespace crema::pointwise_chain {

inline constexpr int kMostSteps = 8, kMostOperands = 4;
/// Values inside of a chain that backward has at once: eight registers each.
inline constexpr int kMostKept = 4;

/// What a step does, behind the mathematics of rooms, which are numbered from 0 on.
enum Kind : int8_t { kSum = -1, kProduct = -2, kDrop = -3 };

struct SumFactors {
  float own, other;
};

/// A ChainStep, for a kernel.
struct Step {
  int8_t kind = 0;
  int8_t operand = 0;                   // sum and product
  int8_t comes_in = -1, goes_out = -1;  // where backward keeps these values; -1: it reads others
  alignas(8) unsigned char settings[ChainStep::kMathBytes] = {};  // Math, SumFactors, DropoutMath

  template <class Settings>
  void set(const Settings& of) {
    static_assert(sizeof(Settings) <= sizeof(settings));
    std::memcpy(settings, &of, sizeof(of));
  }
};

/// The mathematics of the rooms.
template <class... Maths>
struct MathList {
  /// The number of a room's; -1 without it.
  static int find(std::string_view type) {
    int number = 0;
    return ((type == Maths::type || (++number, false)) || ...) ? number : -1;
  }
  static constexpr bool kFit = ((sizeof(Maths) <= ChainStep::kMathBytes) && ...);
  static_assert(kFit, "make ChainStep::kMathBytes larger");

  /// Calls call(math) for the one with that number.
  template <class Call>
  CREMA_FUNCTOR static void with(int number, const unsigned char* settings, const Call& call) {
    int at = 0;
    (void)((number == at++ && (call(load_as<Maths>(settings)), true)) || ...);
  }
};

template <class Maths>
struct Steps {
  using V = Pack<float>;
  using At = PackAt<float>;

  Step of[kMostSteps];
  ValuesIn<float> operands[kMostOperands];  // null where they are not read
  int count = 0;

  /// Of the first operand, which most chains have alone: reading begins with that of x.
  CREMA_FUNCTOR At::Raw fetch(const At& at) const {
    return operands[0] ? at.fetch(operands[0]) : At::Raw{};
  }
  CREMA_FUNCTOR V operand(const Step& step, const At& at, const At::Raw& first) const {
    return step.operand == 0 ? at.value(operands[0], first) : at.load(operands[step.operand]);
  }
  CREMA_FUNCTOR static V drop(const Step& step, const V& x, const At& at) {
    const auto math = load_as<DropoutMath>(step.settings);
    const DropoutWords words = DropoutWords::of(math.key.known(), at.first / At::kSize);
    return V::each([&](int k) { return math.apply(x.lanes[k], words[k]); });
  }

  CREMA_FUNCTOR V forward(const Step& step, const V& x, const At& at, const At::Raw& first) const {
    if (step.kind == kSum) {
      const auto factors = load_as<SumFactors>(step.settings);
      const V sum = V(factors.own) * x + V(factors.other) * operand(step, at, first);
      return sum + V(0);  // the sum of Eltwise makes 0 of -0
    }
    if (step.kind == kProduct) return x * operand(step, at, first);
    if (step.kind == kDrop) return drop(step, x, at);
    V y = x;
    Maths::with(step.kind, step.settings, [&](const auto& math) {
      y = V::each([&](int k) { return math.template forward<float>(x.lanes[k]); });
    });
    return y;
  }
};

template <class Maths>
struct Forward {
  Steps<Maths> steps;
  ValuesIn<float> x;
  ValuesOut<float> y;

  CREMA_FUNCTOR void operator()(const PackAt<float>& at) const {
    const auto raw = at.fetch(x), first = steps.fetch(at);
    Pack<float> value = at.value(x, raw);
    for (int k = 0; k < steps.count; ++k) value = steps.forward(steps.of[k], value, at, first);
    at.store(value, y);
  }
};

/// Values that backward keeps, at places from 0 on. Each has a name: an array with an index that is
/// known at run time would be memory.
template <class V>
struct Kept {
  V first = {}, second = {}, third = {}, fourth = {};
  static_assert(kMostKept == 4);

  /// Nothing for a place below 0.
  CREMA_FUNCTOR void keep(const V& value, int place) {
    if (place == 0) first = value;
    if (place == 1) second = value;
    if (place == 2) third = value;
    if (place == 3) fourth = value;
  }
  CREMA_FUNCTOR V find(int place, const V& other) const {
    V found = other;
    if (place == 0) found = first;
    if (place == 1) found = second;
    if (place == 2) found = third;
    if (place == 3) found = fourth;
    return found;
  }
};

template <class Maths>
struct Backward {
  using V = Pack<float>;
  using At = PackAt<float>;

  Steps<Maths> steps;
  ValuesIn<float> dy, x, y;  // x and y are null where they are not read, as at least one of them is
  ValuesOut<float> dx, d_operands[kMostOperands];  // null where they are not wanted
  int again = 0;                                   // so many steps are computed again
  int last = 0;                                    // steps before this one have no gradient
  int8_t keeps_x = -1;                             // as Step::comes_in of the first one

  CREMA_FUNCTOR void operator()(const At& at) const {
    const auto raw_dy = at.fetch(dy), first = steps.fetch(at);
    Kept<V> kept;
    if (y) kept.first = at.load(y);
    if (x) {
      V value = at.load(x);
      kept.keep(value, keeps_x);
      for (int k = 0; k < again; ++k) {
        value = steps.forward(steps.of[k], value, at, first);
        kept.keep(value, steps.of[k].goes_out);
      }
    }
    V g = at.value(dy, raw_dy);
    for (int k = steps.count; k-- > last;)
      g = backward(steps.of[k], k > last || dx, g, kept, at, first);
    if (dx) at.store(g, dx);
  }

 private:
  /// Writes the gradient of the step's operand. Returns that of what comes in, if it `goes_on`.
  CREMA_FUNCTOR V backward(const Step& step, bool goes_on, const V& g, const Kept<V>& kept,
                           const At& at, const At::Raw& first) const {
    if (step.kind == kSum) {
      const auto factors = load_as<SumFactors>(step.settings);
      const ValuesOut<float>& other = d_operands[step.operand];
      if (other) at.store(V(factors.other) * g, other);
      return V(factors.own) * g;
    }
    if (step.kind == kProduct) {
      const ValuesOut<float>& other = d_operands[step.operand];
      if (other) at.store(g * kept.find(step.comes_in, g), other);
      return goes_on ? g * steps.operand(step, at, first) : g;
    }
    if (step.kind == kDrop) return Steps<Maths>::drop(step, g, at);
    const V in = kept.find(step.comes_in, g), out = kept.find(step.goes_out, g);
    V result = g;
    Maths::with(step.kind, step.settings, [&](const auto& math) {
      result = V::each([&](int k) {
        return math.template backward<float>(g.lanes[k], in.lanes[k], out.lanes[k]);
      });
    });
    return result;
  }
};

/// What a chain is, apart from memory.
struct Chain {
  std::vector<ChainStep> steps;
  std::vector<Step> prepared;   // the same for a kernel, without keys
  std::vector<bool> propagate;  // one entry a bottom of the chain
  std::string types;            // of the layers: "Sigmoid, Eltwise"
  // Of backward:
  bool reads_x = false, reads_y = false;
  std::vector<bool> reads_operand;  // one entry an operand
  int again = 0, last = 0;
  int8_t keeps_x = -1;
};

/// Sets what backward reads and keeps. False where it would keep too many values.
inline bool plan_backward(Chain& chain) {
  const int count = static_cast<int>(chain.steps.size());
  const auto step = [&](int k) -> ChainStep& { return chain.steps[static_cast<size_t>(k)]; };
  const auto prepared = [&](int k) -> Step& { return chain.prepared[static_cast<size_t>(k)]; };
  const auto operand = [&](int k) { return static_cast<size_t>(prepared(k).operand); };
  const auto reads_bottom = [&](int k) {
    return step(k).kind == ChainStep::Kind::sum || step(k).kind == ChainStep::Kind::product;
  };
  const auto wants = [&](int k) { return reads_bottom(k) && chain.propagate[operand(k) + 1]; };
  while (!chain.propagate[0] && chain.last < count && !wants(chain.last)) ++chain.last;
  std::set<int> needed;  // value k is what comes into step k
  for (int k = chain.last; k < count; ++k) {
    if (step(k).kind == ChainStep::Kind::math) {
      if (step(k).reads_x) needed.insert(k);
      if (step(k).reads_y) needed.insert(k + 1);
    } else if (step(k).kind == ChainStep::Kind::product) {
      if (wants(k)) needed.insert(k);
      if (k > chain.last || chain.propagate[0]) chain.reads_operand[operand(k)] = true;
    }
  }
  chain.reads_y = needed == std::set{count};
  chain.reads_x = !needed.empty() && !chain.reads_y;
  if (chain.reads_x) chain.again = *needed.rbegin();
  for (int k = 0; k < chain.again; ++k) {
    if (reads_bottom(k)) chain.reads_operand[operand(k)] = true;
  }
  int8_t place = 0;
  for (const int value : needed) {
    if (value < count) prepared(value).comes_in = place;
    (value > 0 ? prepared(value - 1).goes_out : chain.keeps_x) = place;
    ++place;
  }
  return place <= kMostKept;
}

/// None where a kernel cannot be the chain.
template <class Maths>
std::optional<Chain> chain_of(std::span<const ChainPart> parts, bool goes_back) {
  Chain chain;
  chain.propagate = {parts[0].propagate[parts[0].entry]};
  for (const ChainPart& part : parts) {
    const auto* const link = dynamic_cast<const PointwiseLink*>(part.kernel);
    if (link == nullptr || part.layer->dtype() != DType::f32) return std::nullopt;
    // The bottoms of the part that are no entry.
    const size_t operands = chain.propagate.size() - 1;
    for (size_t b = 0; b < part.propagate.size(); ++b) {
      if (b != part.entry) chain.propagate.push_back(part.propagate[b]);
    }
    for (const ChainStep& step : link->chain_steps(part.entry, *part.top)) {
      Step prepared;
      prepared.operand =
          static_cast<int8_t>(operands + step.bottom - (step.bottom > part.entry ? 1 : 0));
      switch (step.kind) {
        case ChainStep::Kind::math: {
          const int number = Maths::find(step.type);
          if (number < 0) return std::nullopt;
          prepared.kind = static_cast<int8_t>(number);
          std::copy(step.math.begin(), step.math.end(), prepared.settings);
          break;
        }
        case ChainStep::Kind::sum:
          prepared.kind = kSum;
          prepared.set(SumFactors{step.own, step.other});
          break;
        case ChainStep::Kind::product:
          prepared.kind = kProduct;
          break;
        case ChainStep::Kind::drop:
          prepared.kind = kDrop;
          break;
      }
      chain.steps.push_back(step);
      chain.prepared.push_back(prepared);
    }
    chain.types += (chain.types.empty() ? "" : ", ") + part.layer->type();
  }
  if (chain.steps.size() > kMostSteps || chain.propagate.size() - 1 > kMostOperands)
    return std::nullopt;
  chain.reads_operand.assign(chain.propagate.size() - 1, false);
  if (goes_back && !plan_backward(chain)) return std::nullopt;
  return chain;
}

template <class Maths>
class ChainKernel : public Kernel {
 public:
  ChainKernel(const Layer& layer, Chain chain)
      : Kernel(layer), layer_(layer), chain_(std::move(chain)) {}

  void forward(Blobs bottom, Blobs top) override {
    const ComputeDevice device(layer_.context().backend());
    for (const ChainStep& step : chain_.steps) {
      if (step.keys != nullptr) step.keys->draw_key(device);
    }
    Forward<Maths> body;
    body.steps = steps_on(device);
    for (size_t b = 1; b < bottom.size(); ++b)
      body.steps.operands[b - 1] = values_in<float>(device, bottom[b]->data);
    body.x = values_in<float>(device, bottom[0]->data);
    body.y = values_out<float>(device, top[0]->data);
    for_each_pack<float>(device, top[0]->data.storage(),
                         aligned(body.x, body.y) && are_aligned(body.steps.operands), body);
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (std::ranges::find(propagate, true) == propagate.end()) return;
    const ComputeDevice device(layer_.context().backend());
    Backward<Maths> body;
    body.steps = steps_on(device);
    body.again = chain_.again;
    body.last = chain_.last;
    body.keeps_x = chain_.keeps_x;
    // What is read first: a gradient may be written over it.
    body.dy = values_in<float>(device, top[0]->diff);
    if (chain_.reads_x) body.x = values_in<float>(device, bottom[0]->data);
    if (chain_.reads_y) body.y = values_in<float>(device, top[0]->data);
    for (size_t b = 1; b < bottom.size(); ++b) {
      if (chain_.reads_operand[b - 1])
        body.steps.operands[b - 1] = values_in<float>(device, bottom[b]->data);
    }
    if (propagate[0]) body.dx = values_out<float>(device, bottom[0]->diff);
    for (size_t b = 1; b < bottom.size(); ++b) {
      if (propagate[b]) body.d_operands[b - 1] = values_out<float>(device, bottom[b]->diff);
    }
    for_each_pack<float>(device, top[0]->diff.storage(),
                         aligned(body.dy, body.x, body.y, body.dx) &&
                             are_aligned(body.steps.operands) && are_aligned(body.d_operands),
                         body);
  }

  BackwardReads backward_reads() const override {
    std::vector<int> read;
    if (chain_.reads_x) read.push_back(0);
    for (size_t i = 0; i < chain_.reads_operand.size(); ++i) {
      if (chain_.reads_operand[i]) read.push_back(static_cast<int>(i) + 1);
    }
    if (read.empty()) return {false, chain_.reads_y};
    read.resize(1 + kMostOperands, read[0]);
    return {IndexSet{read[0], read[1], read[2], read[3], read[4]}, chain_.reads_y};
  }
  InPlace in_place() const override { return InPlace::overwrite; }
  std::string detail() const override { return "as one: " + chain_.types; }
  bool capturable() const override { return true; }

 private:
  Steps<Maths> steps_on(const ComputeDevice& device) const {
    Steps<Maths> steps;
    steps.count = static_cast<int>(chain_.steps.size());
    std::ranges::copy(chain_.prepared, steps.of);
    for (size_t k = 0; k < chain_.steps.size(); ++k) {
      const ChainStep& step = chain_.steps[k];
      if (step.kind != ChainStep::Kind::drop) continue;
      steps.of[k].set(DropoutMath{step.keys->key_on(device), step.threshold, step.scale});
    }
    return steps;
  }
  template <class Values>
  static bool are_aligned(const Values (&values)[kMostOperands]) {
    return std::ranges::all_of(values, [](const Values& each) { return aligned(each); });
  }

  const Layer& layer_;
  const Chain chain_;
};

/// make_pointwise_chain() with these rooms.
template <class Maths>
std::unique_ptr<Kernel> make_chain(std::span<const ChainPart> parts, bool goes_back) {
  std::optional<Chain> chain = chain_of<Maths>(parts, goes_back);
  if (!chain) return nullptr;
  return std::make_unique<ChainKernel<Maths>>(*parts.back().layer, std::move(*chain));
}

}  // namespace crema::pointwise_chain
