// Copies of parameters on a device, in the order and type that its kernels read.
//
// Who reads a copy finds it up to date: where the values have changed, a launch of its own writes
// it before. An update writes the copies that were up to date along with the parameters
// (solver/update_copies.hpp), so that none of these launches is left in training. Whatever else
// changes a parameter, such as weights that are loaded, is noticed by its version.
//
// A record of a pass reads copies, and writes them with its update alone: they are brought up to
// date in front of its launch (core/access_log.hpp).
#pragma once

#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backend/copy_target.hpp"
#include "core/access_log.hpp"
#include "core/device.hpp"
#include "core/device_run.hpp"
#include "crema/parameter.hpp"

namespace crema {

/// Queued: to = (outputs, deep weights) of from = (outputs, weights), of type `dtype`, with zeros
/// where the map has none. In backend/cuda, with a stub in backend/none that serves the device of
/// the tests.
void write_copy(DeviceBackend& backend, const DepthMap& map, int64_t outputs, const float* from,
                DType dtype, void* to);

class ParameterCopy : public Follower, public std::enable_shared_from_this<ParameterCopy> {
 public:
  struct Form {
    DepthMap map = {};  // of_weights()
    int64_t outputs = 0;
    DType dtype = DType::f32;

    bool operator==(const Form&) const = default;
    size_t bytes() const {
      return static_cast<size_t>(outputs) * map.deep_weights() * size_of(dtype);
    }
    /// The values themselves have this form.
    bool is_that_of_values() const { return dtype == DType::f32 && map.keeps_order(); }
  };

  /// `values`: f32.
  ParameterCopy(DeviceBackend& backend, Tensor values, const Form& form)
      : backend_(backend),
        values_(std::move(values)),
        form_(form),
        copy_(Shape{static_cast<int64_t>(form.bytes())}, DType::u8) {}

  const Form& form() const { return form_; }
  const std::shared_ptr<Memory>& source() const { return values_.memory(); }
  /// In memory of the device that stays the same. Up to date, or so before the launch of the record
  /// that is being made.
  const void* read() {
    AccessLog* const log = backend_.access_log();
    log != nullptr ? log->note_follower(weak_from_this()) : follow();
    return copy_.read<uint8_t>(&backend_);
  }
  bool is_current() const override { return version_ == values_.memory()->version(); }
  void follow() override {
    const uint64_t version = values_.memory()->version();
    if (version == version_) return;
    write_copy(backend_, form_.map, form_.outputs, values_.read<float>(&backend_), form_.dtype,
               copy_.overwrite<uint8_t>(&backend_));
    version_ = version;
    ++launches_;
  }
  /// For whoever writes it along with the values, and calls note_written() then.
  CopyTarget target() { return {form_.map, form_.dtype, copy_.change<uint8_t>(&backend_)}; }
  void note_written() override { version_ = values_.memory()->version(); }
  /// How often it was written by a launch of its own.
  int64_t launches() const { return launches_; }

 private:
  DeviceBackend& backend_;
  Tensor values_;
  Form form_;
  Tensor copy_;
  uint64_t version_ = 0;  // of the values; no memory has version 0
  int64_t launches_ = 0;
};

/// Those of a context's device. All readers of one form share a copy, which exists as long as one
/// of them holds it.
class ParameterCopies {
 public:
  static ParameterCopies& of(DeviceRun& run) {
    if (run.copies() == nullptr) run.copies() = std::make_shared<ParameterCopies>();
    return *run.copies();
  }

  std::shared_ptr<ParameterCopy> get(DeviceBackend& backend, ParameterStorage& values,
                                     const ParameterCopy::Form& form) {
    static_cast<void>(values.version());  // takes memory where nothing was written yet
    const Memory* const source = values.data().memory().get();
    for (auto at = copies_.begin(); at != copies_.end();) {
      std::erase_if(at->second, [](const auto& copy) { return copy.expired(); });
      at = at->second.empty() ? copies_.erase(at) : std::next(at);
    }
    for (const auto& known : copies_[source]) {
      std::shared_ptr<ParameterCopy> copy = known.lock();
      if (copy->form() == form) return copy;
    }
    auto made = std::make_shared<ParameterCopy>(backend, values.data(), form);
    copies_[source].push_back(made);
    return made;
  }

  /// The values of a parameter in a form, in memory of the device. `copy`, of the reader, is that
  /// of the last call, and becomes another one where the parameter computes with other values.
  const void* read(DeviceBackend& backend, Parameter& parameter, const ParameterCopy::Form& form,
                   std::shared_ptr<ParameterCopy>& copy) {
    if (form.is_that_of_values()) return parameter.data.read<float>(&backend);
    if (copy == nullptr || copy->source() != parameter.data.memory())
      copy = get(backend, parameter.values(), form);
    return copy->read();
  }

  /// Those of a parameter that are up to date.
  std::vector<std::shared_ptr<ParameterCopy>> current(const Memory& source) const {
    std::vector<std::shared_ptr<ParameterCopy>> result;
    const auto found = copies_.find(&source);
    if (found == copies_.end()) return result;
    for (const auto& known : found->second) {
      std::shared_ptr<ParameterCopy> copy = known.lock();
      if (copy != nullptr && copy->is_current()) result.push_back(std::move(copy));
    }
    return result;
  }

 private:
  // A copy that lives keeps the memory that it is of.
  std::map<const Memory*, std::vector<std::weak_ptr<ParameterCopy>>> copies_;
};

}  // namespace crema
