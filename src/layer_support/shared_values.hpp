// Memory that the lanes of a block share (layer_support/blocks.hpp). On the device of the tests it
// is watched, as compute-sanitizer does it on one of CUDA: an index outside of it is an Error
// there, and so is a value that one lane writes and another one uses with no wait() between. What
// no lane of an item has written is NaN. In code for CUDA, an index outside ends the kernel unless
// NDEBUG is defined.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/functor.hpp"
#include "crema/error.hpp"

namespace crema {

namespace shared_values_detail {

inline constexpr uint16_t kNobody = 0;

/// Who has been at a value in the latest epoch, from one wait() to the next, in which anybody
/// was. Lanes count from 1. Aligned as a whole, so that processors exchange it at once.
struct alignas(8) State {
  uint32_t epoch = 0;
  uint16_t writer = kNobody, reader = kNobody;
};
struct Lane {
  uint32_t epoch = 1;
  double spare = 0;  // for what is nowhere
};

}  // namespace shared_values_detail

/// What the host watches, for one item at a time.
class WatchedMemory {
 public:
  WatchedMemory(int64_t count, int64_t lanes)
      : values_(static_cast<size_t>(count)),
        states_(static_cast<size_t>(count)),
        lanes_(static_cast<size_t>(lanes)) {}

  /// For a lane behind a barrier.
  void waited(int64_t lane) { ++of(lane).epoch; }

  /// Where value i is; elsewhere if it is none or another lane is there.
  double* take(int64_t i, int64_t lane) { return at(i, lane, false); }
  double* write(int64_t i, int64_t lane) { return at(i, lane, true); }

  /// For one lane, before an item and a wait(): nobody has written.
  void forget() { std::ranges::fill(values_, std::numeric_limits<double>::quiet_NaN()); }

  /// Error if something was wrong. Behind all lanes.
  void check() const {
    const int64_t i = at_, count = static_cast<int64_t>(values_.size());
    if (i == kNowhere) return;
    if (i < 0 || i >= count)
      throw Error("a pass of blocks uses value ", i, " of ", count, " that its lanes share");
    throw Error("lanes of a pass of blocks use value ", i, " of ", count,
                " while another one writes it: wait() is missing between them");
  }

 private:
  using State = shared_values_detail::State;
  using Lane = shared_values_detail::Lane;
  static constexpr uint16_t kNobody = shared_values_detail::kNobody;
  static constexpr uint16_t kSeveral = 0xffff;
  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();

  Lane& of(int64_t lane) { return lanes_[static_cast<size_t>(lane)]; }

  double* at(int64_t i, int64_t lane, bool writes) {
    Lane& own = of(lane);
    if (i < 0 || i >= static_cast<int64_t>(values_.size())) return found(i, own);
    const auto me = static_cast<uint16_t>(lane + 1);
    std::atomic<State>& state = states_[static_cast<size_t>(i)];
    State before = state.load(), after;
    do {
      after = before.epoch == own.epoch ? before : State{own.epoch, kNobody, kNobody};
      uint16_t& role = writes ? after.writer : after.reader;
      role = role == kNobody || role == me ? me : kSeveral;
    } while (!state.compare_exchange_weak(before, after));
    const bool others_read = after.reader != kNobody && after.reader != me;
    const bool others_wrote = after.writer != kNobody && after.writer != me;
    if (others_wrote || (after.writer != kNobody && others_read)) return found(i, own);
    return &values_[static_cast<size_t>(i)];
  }
  double* found(int64_t i, Lane& own) {
    int64_t none = kNowhere;
    at_.compare_exchange_strong(none, i);
    return &own.spare;
  }

  std::vector<double> values_;
  std::vector<std::atomic<State>> states_;
  std::vector<Lane> lanes_;
  std::atomic<int64_t> at_ = kNowhere;  // of the first fault
};

/// A value of a WatchedMemory, as a reference to it.
class WatchedValue {
 public:
  CREMA_FUNCTOR WatchedValue(WatchedMemory* memory, int64_t i, int64_t lane)
      : memory_(memory), i_(i), lane_(lane) {}
  CREMA_FUNCTOR operator double() const {
#ifdef __CUDA_ARCH__
    return 0;
#else
    return *memory_->take(i_, lane_);
#endif
  }
  CREMA_FUNCTOR void operator=([[maybe_unused]] double value) const {
#ifndef __CUDA_ARCH__
    *memory_->write(i_, lane_) = value;
#endif
  }
  CREMA_FUNCTOR void operator=(const WatchedValue& other) const {
    *this = static_cast<double>(other);
  }
  WatchedValue(const WatchedValue&) = default;

 private:
  WatchedMemory* memory_;
  int64_t i_, lane_;
};

/// The values that a lane of TeamLanes shares.
struct WatchedValues {
  WatchedMemory* memory;
  int64_t lane;
  CREMA_FUNCTOR WatchedValue operator[](int64_t i) const { return {memory, i, lane}; }
};

#ifdef __CUDACC__
/// Those of BlockLanes.
template <class T>
struct BlockValues {
  T* values;
  int64_t count;
  CREMA_FUNCTOR T& operator[](int64_t i) const {
#if defined(__CUDA_ARCH__) && !defined(NDEBUG)
    if (i < 0 || i >= count) __trap();
#endif
    return values[i];
  }
};
#endif

}  // namespace crema
