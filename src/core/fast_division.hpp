// FastDivision: division by a number that is known before a pass, as a multiplication and a shift.
// Processors divide slowly, and devices have no instruction for it at all: there, a division of
// 64-bit numbers is a function of a hundred instructions.
#pragma once

#include <cstdint>

#include "core/functor.hpp"
#include "crema/error.hpp"

namespace crema {

/// Divides numerators of [0, `below`) by `divisor`, which is at least 1: an Error otherwise. Where
/// there is no numerator but 0, as in maps without elements, less than 1 is 1. 32 bits are
/// multiplied where `below` is at most 2^31, else 64 bits: the branch is the same for all threads
/// of a pass.
///
/// With l = ceil(log2(divisor)), m = ceil(2^(b + l) / divisor) for numerators of b bits:
/// n * m / 2^(b + l) exceeds n / divisor by less than 1 / divisor, so the whole parts are the same.
class FastDivision {
 public:
  struct Parts {
    int64_t quotient, remainder;
  };

  FastDivision() = default;  // by 1
  FastDivision(int64_t divisor, int64_t below) : divisor_(divisor) {
    if (divisor < 1) {
      if (below > 1) throw Error("numbers below ", below, " are not divided by ", divisor);
      divisor_ = divisor = 1;
    }
    while (uint64_t{1} << log_ < static_cast<uint64_t>(divisor)) ++log_;
    narrow_ = below <= int64_t{1} << 31 && divisor <= int64_t{1} << 31;
    const int bits = narrow_ ? 31 : 63;
    const Wide product = Wide{1} << (bits + log_);
    const auto by = static_cast<Wide>(divisor);
    multiplier_ = static_cast<uint64_t>((product + by - 1) / by);
  }

  CREMA_FUNCTOR int64_t divisor() const { return divisor_; }

  CREMA_FUNCTOR int64_t quotient(int64_t n) const {
    if (narrow_) {
      const uint64_t product =
          uint64_t{static_cast<uint32_t>(n)} * static_cast<uint32_t>(multiplier_);
      return static_cast<int64_t>(product >> (31 + log_));
    }
    const Wide product = Wide{static_cast<uint64_t>(n) << 1} * multiplier_;
    return static_cast<int64_t>(static_cast<uint64_t>(product >> 64) >> log_);
  }
  CREMA_FUNCTOR Parts divide(int64_t n) const {
    const int64_t q = quotient(n);
    return {q, n - q * divisor_};
  }
  CREMA_FUNCTOR int64_t remainder(int64_t n) const { return divide(n).remainder; }

 private:
  __extension__ typedef unsigned __int128 Wide;

  int64_t divisor_ = 1;
  uint64_t multiplier_ = uint64_t{1} << 31;
  int log_ = 0;
  bool narrow_ = true;
};

CREMA_FUNCTOR int64_t operator/(int64_t n, const FastDivision& by) { return by.quotient(n); }
CREMA_FUNCTOR int64_t operator%(int64_t n, const FastDivision& by) { return by.remainder(n); }

}  // namespace crema
