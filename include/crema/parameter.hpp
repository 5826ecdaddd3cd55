// Parameter: values and gradient of one tensor that a layer learns, or only saves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>

#include "crema/filler.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// Values and gradient of a parameter. Layers of one net or of several nets may share one storage.
/// All of them hold a shared_ptr to it.
class ParameterStorage {
 public:
  /// `data` and `diff`: f32 or f64, contiguous. `diff` is empty if the net does not train.
  ParameterStorage(Tensor data, Tensor diff) : data_(std::move(data)), diff_(std::move(diff)) {}

  const Tensor& data() const { return data_; }
  const Tensor& diff() const { return diff_; }
  /// A number that changes with the values: who keeps what follows from them compares it.
  uint64_t version();
  /// A tensor computed from the values by `make`, such as a copy in another element type or in the
  /// layout of a library. `form` names it. `make` runs once for each form and version of the
  /// values; all callers share the result, which exists as long as one of them holds it. Several
  /// threads may call this at the same time.
  std::shared_ptr<const Tensor> derived(const std::string& form,
                                        const std::function<Tensor(const Tensor&)>& make);
  /// The same for an object of any type.
  template <class T>
  std::shared_ptr<T> derived_object(const std::string& form,
                                    const std::function<std::shared_ptr<T>(const Tensor&)>& make) {
    return std::static_pointer_cast<T>(derive(typeid(T).name() + form, make));
  }

 private:
  friend class Parameter;
  struct Derived {
    uint64_t version = 0;
    std::weak_ptr<void> object;
  };
  std::shared_ptr<void> derive(const std::string& form,
                               const std::function<std::shared_ptr<void>(const Tensor&)>& make);
  Tensor data_, diff_;
  bool cleared_ = true;
  std::mutex mutex_;
  std::map<std::string, Derived> derived_;
};

/// A parameter of a layer: learned, or only saved, such as the statistics of BatchNorm.
///
/// Gradients accumulate over backward passes until the solver clears them. Clearing is lazy: a
/// cleared gradient counts as zero, but its memory still holds the old values. The first writer
/// overwrites them. A layer adds its gradient in one of two ways:
///   - it calls begin_gradient() and uses the result as beta of a GEMM (0: overwrite, 1: add);
///   - it adds to gradient(), which sets cleared memory to zero first.
class Parameter {
 public:
  Parameter(Shape shape, Filler filler) : shape_(std::move(shape)), filler_(std::move(filler)) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const Shape& shape() const { return shape_; }
  const Filler& filler() const { return filler_; }

  Tensor data;  // (shape), f32 or f64, contiguous; a view of values()
  Tensor diff;  // (shape), the gradient; read it through gradient()

  /// Factors on the solver's learning rate and weight decay. They may change between updates. For a
  /// shared parameter, those of its first user count. If lr_mult is 0 when the net is built, the
  /// net never computes the gradient, unless it has force_backward.
  float lr_mult = 1;
  float decay_mult = 1;
  /// False for parameters that are saved but never learned, such as the statistics of BatchNorm.
  /// They have no gradient and no decay, even if the prototxt sets lr_mult.
  bool learnable = true;
  /// The net computes the gradient: the parameter is learnable, and lr_mult is not 0 or the net has
  /// force_backward.
  bool needs_gradient = true;

  /// 0 at the first call after clear_gradient(), else 1.
  double begin_gradient();
  /// The gradient. Sets its memory to zero if it was cleared.
  Tensor& gradient();
  void clear_gradient() { storage_->cleared_ = true; }
  bool is_cleared() const { return storage_->cleared_; }

  /// Makes data and diff views of `storage`. Error if the number of values differs.
  void attach(std::shared_ptr<ParameterStorage> storage);
  const std::shared_ptr<ParameterStorage>& storage() const { return storage_; }
  /// Makes data a view of other values, such as a noisy copy, until compute_with(nullptr). The net
  /// does that around forward and backward of a layer whose `param` sets noise. storage() and the
  /// gradient stay. `values` has the type and the number of the parameter's own.
  void compute_with(ParameterStorage* values);
  /// What data is a view of. What an engine derives from the values belongs there.
  ParameterStorage& values() const { return values_ != nullptr ? *values_ : *storage_; }

 private:
  Shape shape_;
  Filler filler_;
  std::shared_ptr<ParameterStorage> storage_;
  ParameterStorage* values_ = nullptr;  // null: storage_
};

}  // namespace crema
