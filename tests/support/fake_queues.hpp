// The two queues of the device of the tests, whose work may be done late: only where the host waits
// for it, and in another order between the queues, as far as events allow. What misses an event or
// a wait computes with other values then, as it may on a device.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "core/device.hpp"
#include "crema/error.hpp"

namespace crema {

class FakeQueues {
 public:
  /// Which queues do their work as late as they may.
  enum class Mode : uint8_t { at_once, late, upload_late, work_late };

  /// Of the environment variable CREMA_FAKE_QUEUES: the name of a mode; at_once without it.
  static Mode mode_of_environment() {
    const char* const given = std::getenv("CREMA_FAKE_QUEUES");
    const std::string_view name = given != nullptr ? given : "none";
    if (name == "none" || name.empty()) return Mode::at_once;
    if (name == "late") return Mode::late;
    if (name == "upload_late") return Mode::upload_late;
    if (name == "work_late") return Mode::work_late;
    throw Error("CREMA_FAKE_QUEUES is ", name, "; give none, late, upload_late or work_late");
  }

  explicit FakeQueues(Mode mode) : mode_(mode) {}

  Mode mode() const { return mode_; }
  bool is_late() const { return mode_ != Mode::at_once; }

  void add(DeviceQueue queue, std::function<void()> work) {
    if (!is_late()) return work();
    push(queue, {.work = std::move(work)});
  }
  /// A ticket for what is in the queue now.
  uint64_t mark(DeviceQueue queue) {
    if (!is_late()) return 0;
    push(queue, {.done = ++tickets_});
    return tickets_;
  }
  /// What follows in the queue is done behind the ticket.
  void wait_in(DeviceQueue queue, uint64_t ticket) {
    if (is_late() && ticket != 0) push(queue, {.needs = ticket});
  }
  /// Does what has to be done for the ticket, and no more.
  void run_until(uint64_t ticket) {
    while (is_open(ticket)) {
      const size_t queue = queue_of(ticket);
      step(queue);
    }
    run_early();
  }
  void run_all() {
    for (size_t queue = 0; queue < items_.size(); ++queue) {
      while (!items_[queue].empty()) step(queue);
    }
  }

 private:
  struct Item {
    std::function<void()> work = {};
    uint64_t done = 0, needs = 0;  // a ticket; 0: none
  };

  void push(DeviceQueue queue, Item item) {
    if (item.done != 0) open_.insert(item.done);
    items_[static_cast<size_t>(queue)].push_back(std::move(item));
    run_early();
  }
  bool is_open(uint64_t ticket) const { return open_.count(ticket) != 0; }
  bool is_early(size_t queue) const {
    return mode_ == (queue == 0 ? Mode::upload_late : Mode::work_late);
  }
  /// A queue that is not late goes on until it waits for the other one.
  void run_early() {
    for (size_t queue = 0; queue < items_.size(); ++queue) {
      std::deque<Item>& items = items_[queue];
      while (is_early(queue) && !items.empty() && !is_open(items.front().needs)) step(queue);
    }
  }
  size_t queue_of(uint64_t ticket) const {
    for (size_t queue = 0; queue < items_.size(); ++queue) {
      for (const Item& item : items_[queue])
        if (item.done == ticket) return queue;
    }
    throw Error("no queue of the device of the tests has ticket ", ticket);
  }
  /// The first item, and what it waits for.
  void step(size_t queue) {
    while (is_open(items_[queue].front().needs)) step(queue_of(items_[queue].front().needs));
    const Item item = std::move(items_[queue].front());
    items_[queue].pop_front();
    if (item.work) item.work();
    open_.erase(item.done);
  }

  Mode mode_;
  std::array<std::deque<Item>, 2> items_;
  std::set<uint64_t> open_;  // tickets that are not done
  uint64_t tickets_ = 0;
};

}  // namespace crema
