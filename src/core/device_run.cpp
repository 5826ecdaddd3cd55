#include "core/device_run.hpp"

#include <algorithm>
#include <utility>

#include "crema/error.hpp"

namespace crema {

DeviceRun::DeviceRun(DeviceBackend& backend) : backend_(backend) {
  block_ = static_cast<RunBlock*>(backend_.allocate(sizeof(RunBlock)));
  const RunBlock fresh;
  backend_.copy_to_device(block_, &fresh, sizeof fresh);
  const auto make = [&](Slot& slot) {
    slot.report = static_cast<DeviceReport*>(backend_.allocate_pinned(sizeof(DeviceReport)));
    slot.copied = backend_.make_event();
  };
  std::ranges::for_each(slots_, make);
  make(now_);
}

DeviceRun::~DeviceRun() {
  try {
    // Copies of reports that nobody has waited for.
    if (reports_ > 0) backend_.wait(*slots_[(reports_ - 1) % kReports].copied);
  } catch (...) {  // of a lost device: nothing is copied any more
  }
  for (Slot& slot : slots_) backend_.release_pinned(slot.report);
  backend_.release_pinned(now_.report);
  backend_.release(block_);
}

void DeviceRun::begin_pass(const PassState& state) {
  if (state == state_) return;
  state_ = state;
  backend_.copy_to_device(&block_->state, &state_, sizeof state_);
}

void DeviceRun::clear() {
  const DeviceReport fresh;
  backend_.copy_to_device(&block_->report, &fresh, sizeof fresh);
}

void DeviceRun::copy_report(const Slot& slot) {
  backend_.download(slot.report, &block_->report, sizeof(DeviceReport));
  backend_.record(*slot.copied, DeviceQueue::work);
}

uint64_t DeviceRun::queue_report() {
  copy_report(slots_[reports_ % kReports]);
  return reports_++;
}

DeviceReport DeviceRun::report() {
  copy_report(now_);
  backend_.wait(*now_.copied);
  return *now_.report;
}

DeviceReport DeviceRun::wait_report(uint64_t number) {
  if (number >= reports_ || number + kReports < reports_)
    throw Error("report ", number, " of a device is not among the last ", kReports, " of ",
                reports_);
  const Slot& slot = slots_[number % kReports];
  backend_.wait(*slot.copied);
  return *slot.report;
}

const Layer* DeviceRun::layer_of(const DeviceReport& report) const {
  const auto found = checks_.find(static_cast<uint32_t>(report.bad >> DeviceReport::kIndexBits));
  return found == checks_.end() ? nullptr : &found->second->layer_;
}

void DeviceRun::explain(const DeviceReport& report) const {
  const auto found = checks_.find(static_cast<uint32_t>(report.bad >> DeviceReport::kIndexBits));
  const uint64_t index = report.bad & ((uint64_t{1} << DeviceReport::kIndexBits) - 1);
  if (found != checks_.end()) found->second->explain_(static_cast<int64_t>(index), report.value);
  throw Error("the value ", report.value, " at position ", index, " is none that its layer reads");
}

DeviceCheck::DeviceCheck(DeviceRun& run, const Layer& layer, Explain explain)
    : run_(run), layer_(layer), explain_(std::move(explain)), number_(run.next_check_++) {
  run_.checks_[number_] = this;
}

DeviceCheck::~DeviceCheck() { run_.checks_.erase(number_); }

}  // namespace crema
