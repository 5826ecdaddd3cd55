// Random problems for tests: numbers from the environment, and draws that depend on a seed alone.
#pragma once

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "crema/error.hpp"
#include "crema/random.hpp"

namespace crema::test {

/// The whole number in an environment variable, or `otherwise` where it is not set.
inline uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  if (!text) return otherwise;
  const std::string_view digits(text);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end())
    throw Error(variable, "=", text, " is no whole number");
  return number;
}

/// Draws what a problem is made of.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t stream) : random_(seed, stream) {}

  /// A whole number from low to high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.below(static_cast<uint64_t>(high - low + 1)));
  }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  /// True with probability 1 / `times`.
  bool one_in(int64_t times) { return between(1, times) == 1; }
  const char* boolean() { return one_in(2) ? "true" : "false"; }
  double number(double low, double high) { return random_.uniform(low, high); }

 private:
  Random random_;
};

}  // namespace crema::test
