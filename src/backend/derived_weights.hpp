// Weights of a convolution, and what is derived from them: a copy in the layout of a primitive.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/memory.hpp"
#include "crema/layer.hpp"

namespace crema {

/// (O, I / groups, kernel...), f32, contiguous.
struct ConvolutionWeights {
  const float* values = nullptr;
  /// Keeps what is derived from the values until they change. Null if they change between passes,
  /// as in training: primitives then derive in each pass, in scratch memory.
  ParameterStorage* storage = nullptr;
};

/// A derived copy that the storage of the weights keeps. All primitives that name the same form
/// share it: those of several input shapes, and those of nets that share parameters.
class DerivedWeights {
 public:
  DerivedWeights() = default;
  /// `form` names the layout of `bytes` bytes.
  DerivedWeights(std::string form, size_t bytes) : form_(std::move(form)), bytes_(bytes) {}

  size_t bytes() const { return bytes_; }
  /// `make` writes the copy. It runs once for each version of the values.
  template <class Make>
  const void* get(ParameterStorage& storage, const Make& make) {
    const uint64_t version = storage.data().memory()->version();
    if (copy_ == nullptr || of_ != &storage || version_ != version) {
      copy_ = storage.derived(form_, [&](const Tensor&) {
        Tensor copy(Shape{static_cast<int64_t>(bytes_)}, DType::u8);
        make(copy.overwrite<uint8_t>());
        return copy;
      });
      of_ = &storage;
      version_ = version;
    }
    return copy_->read<uint8_t>();
  }

 private:
  std::string form_;
  size_t bytes_ = 0;
  std::shared_ptr<const Tensor> copy_;
  const ParameterStorage* of_ = nullptr;
  uint64_t version_ = 0;
};

}  // namespace crema
