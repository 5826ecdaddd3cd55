#include "python/blob.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/device.hpp"
#include "core/memory.hpp"
#include "python/errors.hpp"

namespace crema::python {
namespace {

nb::dlpack::dtype dlpack_type(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return nb::dtype<float>();
    case DType::f64:
      return nb::dtype<double>();
    case DType::u8:
      return nb::dtype<uint8_t>();
    case DType::i32:
      return nb::dtype<int32_t>();
    case DType::i64:
      return nb::dtype<int64_t>();
    default:
      throw Error("values of ", to_string(tensor.dtype()),
                  " have no array of numpy; build the net with activations of f32");
  }
}

/// A pointer to all values, which the caller may change; on the host if `device` is null.
void* change(Tensor& tensor, DeviceBackend* device = nullptr) {
  switch (tensor.dtype()) {
    case DType::f32:
      return tensor.change<float>(device);
    case DType::f64:
      return tensor.change<double>(device);
    case DType::u8:
      return tensor.change<uint8_t>(device);
    case DType::i32:
      return tensor.change<int32_t>(device);
    case DType::i64:
      return tensor.change<int64_t>(device);
    default:
      throw Error("values of ", to_string(tensor.dtype()),
                  " have no array of numpy; build the net with activations of f32");
  }
}

std::vector<size_t> sizes(const Tensor& tensor) {
  return {tensor.shape().dims().begin(), tensor.shape().dims().end()};
}

nb::object numpy_array(const Tensor& tensor, void* pointer, const nb::capsule& owner) {
  const std::vector<size_t> dims = sizes(tensor);
  return nb::cast(nb::ndarray<nb::numpy>(pointer, dims.size(), dims.data(), owner, nullptr,
                                         dlpack_type(tensor)));
}

/// A capsule that holds `value`.
template <class T>
nb::capsule capsule_of(T value) {
  return nb::capsule(new T(std::move(value)),
                     [](void* held) noexcept { delete static_cast<T*>(held); });
}

/// A pointer that is valid as long as `scope` lives.
template <class T>
void* change_in_scope(Tensor& tensor, std::shared_ptr<void>& scope) {
  // Made in place, as it neither copies nor moves.
  const std::shared_ptr<Changing<T>> changing(new Changing<T>(tensor.changing<T>()));
  scope = changing;
  return changing->data();
}

/// Those that are open, under the GIL.
std::vector<BlobView*>& open_views() {
  static auto* const views = new std::vector<BlobView*>();  // blobs may outlive what is static
  return *views;
}

}  // namespace

void close_unused_views() {
  if (!open_views().empty())
    std::erase_if(open_views(), [](BlobView* view) { return view->close_if_unused(); });
}

BlobView::BlobView(Blob& blob, const Context& context, Reshape reshape, std::shared_ptr<void> owner,
                   std::shared_ptr<const bool> valid)
    : blob_(&blob),
      context_(context),
      reshape_(std::move(reshape)),
      owner_(std::move(owner)),
      valid_(std::move(valid)) {}

BlobView::BlobView(Parameter& parameter, const Context& context, std::shared_ptr<void> owner,
                   std::shared_ptr<const bool> valid)
    : parameter_(&parameter),
      context_(context),
      owner_(std::move(owner)),
      valid_(std::move(valid)) {}

BlobView::BlobView(const BlobView& other)
    : blob_(other.blob_),
      parameter_(other.parameter_),
      context_(other.context_),
      reshape_(other.reshape_),
      owner_(other.owner_),
      valid_(other.valid_) {}

BlobView::~BlobView() {
  if (is_open_) std::erase(open_views(), this);
}

void BlobView::check_valid() const {
  if (valid_ == nullptr || *valid_) return;
  throw Error(
      "this blob was given to a layer in Python, and exists only while setup, reshape, forward or "
      "backward run, or as long as the net does; keep a copy of its data instead");
}

Tensor& BlobView::tensor(bool of_diff) const {
  check_valid();
  if (parameter_ != nullptr) return of_diff ? parameter_->gradient() : parameter_->data;
  if (!of_diff) return blob_->data;
  // A net without backward leaves diffs as they are.
  if (blob_->diff.shape() != blob_->data.shape()) blob_->diff.reshape(blob_->data.shape());
  return blob_->diff;
}

const Shape& BlobView::shape() const {
  check_valid();
  return parameter_ != nullptr ? parameter_->shape() : blob_->shape();
}

BlobView::Made BlobView::made_of(const Tensor& tensor, void* pointer) {
  Made made;
  made.share = std::make_shared<Share>(Share{tensor.memory(), nullptr});
  made.array = numpy_array(tensor, pointer, capsule_of(made.share));
  made.pointer = pointer;
  made.shape = tensor.shape();
  // numpy decides to which array of several in a row a new one refers.
  made.root = nb::getattr(made.array[nb::ellipsis()], "base");
  made.references = Py_REFCNT(made.root.ptr());
  return made;
}

nb::object BlobView::array_of(const Made& made, bool of_diff) {
  const nb::object array = nb::steal(PyObject_GetItem(made.array.ptr(), Py_Ellipsis));
  if (!context_.on_gpu()) return array;
  return nb::module_::import_("crema._device_array").attr("of")(array, nb::find(*this), of_diff);
}

nb::object BlobView::view(Tensor& tensor, Made& made, bool of_diff) {
  void* const pointer = change(tensor);
  if (!made.is_of(tensor, pointer)) made = made_of(tensor, pointer);
  return array_of(made, of_diff);
}

nb::object BlobView::view_of_weights(Tensor& tensor) {
  std::shared_ptr<void> scope;
  const auto open = [&] {
    return tensor.dtype() == DType::f64 ? change_in_scope<double>(tensor, scope)
                                        : change_in_scope<float>(tensor, scope);
  };
  // On the host, an open scope covers this array too.
  const bool is_covered = is_open_ && !context_.on_gpu();
  void* pointer = is_covered ? const_cast<void*>(tensor.read_bytes()) : open();
  if (!data_.is_of(tensor, pointer)) {
    if (scope == nullptr) pointer = open();
    data_ = made_of(tensor, pointer);
  }
  if (scope != nullptr) data_.share->scope = std::move(scope);
  if (!is_open_) open_views().push_back(this);
  is_open_ = true;
  return array_of(data_, false);
}

bool BlobView::close_if_unused() {
  if (data_.in_use()) return false;
  data_.share->scope.reset();
  is_open_ = false;
  return true;
}

nb::object BlobView::data() {
  Tensor& values = tensor(false);
  return parameter_ != nullptr ? view_of_weights(values) : view(values, data_, false);
}

nb::object BlobView::diff() { return view(tensor(true), diff_, true); }

void BlobView::reshape(const Shape& shape) {
  check_valid();
  if (parameter_ == nullptr) return reshape_(shape);
  if (shape != this->shape())
    throw Error("a parameter of shape ", this->shape().str(), " cannot become ", shape.str(),
                "; its shape follows from the settings of the layer");
}

nb::object BlobView::on_device(bool of_diff) {
  Tensor& values = tensor(of_diff);
  if (!context_.on_gpu()) return of_diff ? diff() : data();
  DeviceBackend& device = context_.backend();
  std::shared_ptr<Share> share = std::make_shared<Share>(Share{values.memory(), nullptr});
  void* pointer = nullptr;
  if (parameter_ != nullptr && !of_diff) {
    // No writable pointer is noted for ever, but as long as the array lives.
    values.read_bytes(&device);
    pointer = values.overwrite_bytes(&device);
    share = std::make_shared<Share>(
        Share{values.memory(), std::make_shared<ChangeScope>(values.memory())});
  } else {
    pointer = change(values, &device);
  }
  // Whoever reads it does so in a queue of his own.
  device.synchronize();
  const std::vector<size_t> dims = sizes(values);
  const nb::capsule owner = capsule_of(std::move(share));
  return nb::cast(nb::ndarray<nb::array_api>(pointer, dims.size(), dims.data(), owner, nullptr,
                                             dlpack_type(values), nb::device::cuda::value,
                                             context_.device().index));
}

bool BlobView::take_from_device(const nb::object& array, bool of_diff) {
  if (!context_.on_gpu()) return false;
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cuda> given;
  if (!nb::try_cast(array, given, false)) return false;
  Tensor& values = tensor(of_diff);
  const std::vector<size_t> dims = sizes(values);
  bool fits = given.ndim() == dims.size() && given.dtype() == dlpack_type(values) &&
              given.device_id() == context_.device().index;
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = given.shape(i) == dims[i];
  if (!fits) return false;
  DeviceBackend& device = context_.backend();
  device.copy(values.overwrite_bytes(&device), given.data(), values.bytes());
  // The caller may change his memory then.
  device.synchronize();
  return true;
}

uintptr_t BlobView::device_pointer(bool of_diff) {
  if (!context_.on_gpu())
    throw Error("the net computes on the CPU, so its blobs have no memory on a GPU");
  return reinterpret_cast<uintptr_t>(change(tensor(of_diff), &context_.backend()));
}

namespace {

/// A dimension: a whole number of any type, such as 3, np.int64(3) or 6 / 2.
int64_t dim_of(nb::handle given) {
  const nb::int_ number(given);
  if (!number.equal(given)) {
    const std::string message = text("the dimension ", nb::repr(given).c_str(),
                                     " is no whole number; divide by // for one");
    throw nb::type_error(message.c_str());
  }
  return nb::cast<int64_t>(number);
}

/// Error if a dimension is negative: numpy finds such a one out, as in reshape(-1, 3), and blobs do
/// not. `count`: the values that there are.
void check_dims(const std::vector<int64_t>& dims, int64_t count) {
  if (std::ranges::none_of(dims, [](int64_t dim) { return dim < 0; })) return;
  std::vector<int64_t> all = dims;
  const auto unknown = std::ranges::find_if(all, [](int64_t dim) { return dim < 0; });
  const bool is_minus_1 = std::exchange(*unknown, 1) == -1;
  std::string meant;
  if (is_minus_1 && std::ranges::all_of(all, [](int64_t dim) { return dim > 0; })) {
    const int64_t others = Shape(all).count();
    *unknown = count / others;
    if (*unknown * others == count)
      meant = text(", such as reshape(", joined(all), ") for the ", count, " values that it has");
  }
  throw Error("reshape(", joined(dims), ") of a blob: dimensions cannot be negative, and none is ",
              "found out from the others; give all of them", meant);
}

/// The dimensions of reshape(2, 3) or reshape((2, 3)), of a blob with `count` values.
Shape shape_of(const nb::args& dims, int64_t count) {
  std::vector<int64_t> all;
  if (dims.size() == 1 && nb::hasattr(dims[0], "__len__")) {
    for (const nb::handle dim : dims[0]) all.push_back(dim_of(dim));
  } else {
    for (const nb::handle dim : dims) all.push_back(dim_of(dim));
  }
  check_dims(all, count);
  return Shape(std::move(all));
}

/// The dict of numpy's protocol. Its data are an array, not an address, so that who reads it keeps
/// the memory, and with it a change to weights, as long as his own array.
nb::dict array_interface(BlobView& blob) {
  const nb::object array = blob.data();
  nb::dict interface = nb::cast<nb::dict>(array.attr("__array_interface__"));
  interface["data"] = array;
  return interface;
}

/// `copy`: True, False (ValueError where it takes a copy), or None.
nb::object array_of_type(BlobView& blob, const nb::object& dtype, const nb::object& copy) {
  const nb::object array = blob.data();
  const bool copies = copy.is(Py_True);
  if (dtype.is_none()) return copies ? nb::object(array.attr("copy")()) : array;
  nb::object made = array.attr("astype")(dtype, nb::arg("copy") = copies);
  if (copy.is(Py_False) && !made.is(array))
    throw nb::value_error("values of another type are a copy, and copy=False does not allow one");
  return made;
}

nb::tuple dims_of(const BlobView& blob) {
  nb::list dims;
  for (const int64_t dim : blob.shape().dims()) dims.append(dim);
  return nb::tuple(dims);
}

int64_t dim_or_1(const BlobView& blob, int axis) {
  const Shape& shape = blob.shape();
  if (shape.rank() > 4)
    throw Error(
        "num, channels, height and width are of blobs with at most 4 axes, and this one is ",
        shape.str(), "; use shape");
  return shape.dim_or_1(axis);
}

std::string representation(const BlobView& blob) {
  return text("<crema.Blob of ", blob.shape().str(), ">");
}

}  // namespace

void bind_blob(nb::module_& module) {
  nb::class_<BlobView> type(module, "Blob", nb::is_weak_referenceable(),
                            "Values (data) and gradients (diff) of a net's blob or parameter.");
  type.def_prop_ro("data", &BlobView::data,
                   "The values: a numpy array on the library's own memory, writable.");
  type.def_prop_ro("diff", &BlobView::diff,
                   "The gradient of the loss in the values; the same memory each time, writable.");
  type.def_prop_ro("shape", dims_of, "The dimensions, as a tuple.");
  type.def_prop_ro(
      "count", [](const BlobView& blob) { return blob.shape().count(); }, "The number of values.");
  const char* const names[] = {"num", "channels", "height", "width"};
  const char* const said[] = {"shape[0]; 1 without that axis.", "shape[1]; 1 without that axis.",
                              "shape[2]; 1 without that axis.", "shape[3]; 1 without that axis."};
  for (int axis = 0; axis < 4; ++axis)
    type.def_prop_ro(
        names[axis], [axis](const BlobView& blob) { return dim_or_1(blob, axis); }, said[axis]);
  type.def(
      "reshape",
      [](BlobView& blob, const nb::args& dims) {
        blob.reshape(shape_of(dims, blob.shape().count()));
      },
      "Sets the shape of an input: reshape(1, 3, 227, 227). The next forward follows it.");
  type.def("on_device", &BlobView::on_device, nb::arg("of_diff") = false,
           "The values as an object with __dlpack__, where the net computes.");
  type.def(
      "take_from_device", &BlobView::take_from_device, nb::arg("array"), nb::arg("of_diff"),
      "Copies from a DLPack array on the net's device into the values, or with of_diff into the "
      "gradients. False if it lies elsewhere.");
  type.def_prop_ro("_gpu_data_ptr", [](BlobView& blob) { return blob.device_pointer(false); });
  type.def_prop_ro("_gpu_diff_ptr", [](BlobView& blob) { return blob.device_pointer(true); });
  type.def("__dlpack__", [](BlobView& blob, const nb::kwargs& options) {
    return blob.on_device(false).attr("__dlpack__")(**options);
  });
  type.def("__dlpack_device__",
           [](BlobView& blob) { return blob.on_device(false).attr("__dlpack_device__")(); });
  type.def_prop_ro("__array_interface__", array_interface);
  type.def("__array__", array_of_type, nb::arg("dtype").none() = nb::none(),
           nb::arg("copy").none() = nb::none());
  type.def("__len__", [](const BlobView& blob) {
    if (blob.shape().rank() == 0) throw nb::type_error("this blob is a single value");
    return blob.shape()[0];
  });
  type.def("__repr__", representation);
}

}  // namespace crema::python
