// Blob in Python: views of values and gradients that live in the library.
//
// data and diff are host memory, writable. An array owns a share of the memory; it stays valid when
// the net is gone, or has given the blob another memory. Access from Python holds the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/parameter.hpp"

namespace crema::python {

namespace nb = nanobind;

class BlobView {
 public:
  using Reshape = std::function<void(const Shape&)>;

  /// A blob of `owner`, which lives as long as this, or as long as *valid is true.
  BlobView(Blob& blob, const Context& context, Reshape reshape, std::shared_ptr<void> owner,
           std::shared_ptr<const bool> valid = nullptr);
  /// A parameter.
  BlobView(Parameter& parameter, const Context& context, std::shared_ptr<void> owner,
           std::shared_ptr<const bool> valid = nullptr);

  const Shape& shape() const;
  nb::object data();
  nb::object diff();
  void reshape(const Shape& shape);
  /// The data as DLPack has them: where the context computes, without a copy to the host.
  nb::object on_device(bool of_diff);
  /// Copies from memory of the context's device. False if the array is not there.
  bool take_from_device(const nb::object& array);
  uintptr_t device_pointer(bool of_diff);

 private:
  /// An array that was made before, and of what.
  struct Made {
    nb::object array;
    const void* pointer = nullptr;
    Shape shape;
  };

  void check_valid() const;
  Tensor& tensor(bool of_diff) const;
  nb::object view(Tensor& tensor, Made& made);
  nb::object view_of_weights(Tensor& tensor);

  Blob* blob_ = nullptr;
  Parameter* parameter_ = nullptr;
  const Context& context_;
  Reshape reshape_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<const bool> valid_;
  Made data_, diff_;
};

void bind_blob(nb::module_& module);

}  // namespace crema::python
