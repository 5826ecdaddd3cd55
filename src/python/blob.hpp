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
  /// The same blob. It makes arrays of its own.
  BlobView(const BlobView& other);
  ~BlobView();
  BlobView& operator=(const BlobView&) = delete;

  const Shape& shape() const;
  nb::object data();
  nb::object diff();
  void reshape(const Shape& shape);
  /// The data as DLPack has them: where the context computes, without a copy to the host.
  nb::object on_device(bool of_diff);
  /// Copies from memory of the context's device. False if the array is not there.
  bool take_from_device(const nb::object& array, bool of_diff);
  uintptr_t device_pointer(bool of_diff);

 private:
  /// What arrays keep alive.
  struct Share {
    std::shared_ptr<Memory> memory;
    std::shared_ptr<void> scope;  // of a change to weights, while scripts have arrays of them
  };
  /// An array that was made before, and of what. Scripts get arrays that refer to `root`.
  struct Made {
    nb::object array, root;
    Py_ssize_t references = 0;  // of `root` while scripts have none
    std::shared_ptr<Share> share;
    const void* pointer = nullptr;
    Shape shape;

    bool is_of(const Tensor& tensor, const void* at) const {
      return pointer == at && shape == tensor.shape() && array.is_valid();
    }
    bool in_use() const { return Py_REFCNT(root.ptr()) > references; }
  };
  friend void close_unused_views();

  static Made made_of(const Tensor& tensor, void* pointer);
  void check_valid() const;
  Tensor& tensor(bool of_diff) const;
  /// A new array of the same memory: a caller may set the shape of his.
  nb::object array_of(const Made& made, bool of_diff);
  nb::object view(Tensor& tensor, Made& made, bool of_diff);
  nb::object view_of_weights(Tensor& tensor);
  /// Ends the scope if no script has an array. Returns whether it did.
  bool close_if_unused();

  Blob* blob_ = nullptr;
  Parameter* parameter_ = nullptr;
  const Context& context_;
  Reshape reshape_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<const bool> valid_;
  Made data_, diff_;
  bool is_open_ = false;  // data_ has a scope
};

/// Before nets run: weights of which scripts have no array any longer may be kept in other forms
/// again.
void close_unused_views();

void bind_blob(nb::module_& module);

}  // namespace crema::python
