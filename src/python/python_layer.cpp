// PythonLayer: calls setup, reshape, forward and backward of an object that crema._layer makes.
//
// A layer without bottoms is a source of data: its reshape and forward run in fetch(), or ahead of
// it in a thread, on blobs of their own, which forward_cpu() copies. So each batch may have another
// shape.
//
// What add_blob() declares in setup() gets its first values there. The net would overwrite them by
// a filler, so the filler is "not a number", and prepare_reference() writes the values where no
// file of weights has brought others.
#include "python/python_layer.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/carried_state.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"
#include "python/batches_ahead.hpp"
#include "python/blob.hpp"
#include "python/errors.hpp"
#include "python/fork.hpp"

namespace crema::python {
namespace {

/// As long as it lives, the blobs that were given to Python exist.
class Lent {
 public:
  Lent() = default;
  ~Lent() { *valid_ = false; }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  /// With the GIL. Notes in `shaped`, by index, the blobs whose shapes are set; null: no notes.
  nb::list list(Blobs blobs, const Context& context, std::vector<bool>* shaped = nullptr) const {
    nb::list views;
    for (size_t i = 0; i < blobs.size(); ++i) {
      Blob* const blob = blobs[i];
      const auto reshape = [blob, shaped, i](const Shape& shape) {
        blob->reshape(shape);
        if (shaped != nullptr) (*shaped)[i] = true;
      };
      views.append(nb::cast(BlobView(*blob, context, reshape, nullptr, valid_)));
    }
    return views;
  }

 private:
  std::shared_ptr<bool> valid_ = std::make_shared<bool>(true);
};

class PythonLayer : public Layer, public CarriesState {
 public:
  explicit PythonLayer(const LayerInit& init) : Layer(init) {
    const PythonParameter& given = param().python_param();
    if (given.module().empty() || given.layer().empty())
      throw Error(
          "python_param needs the module and the name of the class: python_param { module: 'm' "
          "layer: 'MyLayer' }");
    call_python([&] {
      const nb::object make = nb::module_::import_("crema._layer").attr("make");
      const nb::object add_blob =
          nb::cpp_function([this, alive = alive_](const std::vector<int64_t>& dims) {
            if (!*alive || !setting_up_)
              throw Error(
                  "blobs.add_blob is for setup(): the parameters of a layer are fixed behind it");
            return declare(dims);
          });
      object_ = make(given.module(), given.layer(), name(), given.param_str(),
                     phase() == Phase::train ? 0 : 1, add_blob);
      has_state_ = nb::hasattr(object_, "state");
      has_reshape_ =
          nb::cast<bool>(nb::module_::import_("crema._layer").attr("has_reshape")(object_));
      // Another attribute of that name is the script's own.
      const nb::object ahead = nb::getattr(object_, "prefetch", nb::none());
      if (is_data() && nb::isinstance<nb::int_>(ahead)) ahead_ = nb::cast<int>(ahead);
      if (ahead_ < 0)
        throw Error("`prefetch = ", ahead_, "` of class ", given.layer(),
                    " must be the number of batches to make ahead, 0 for none");
      follows_values_ =
          nb::cast<bool>(nb::bool_(nb::getattr(object_, "shapes_from_values", nb::bool_(true))));
    });
  }

  ~PythonLayer() override {
    *alive_ = false;
    if (!Py_IsInitialized()) {
      object_.release();
      return;
    }
    const nb::gil_scoped_acquire gil;
    {
      // Its thread may wait for the GIL.
      const nb::gil_scoped_release release;
      batches_.reset();
    }
    object_ = nb::object();
  }

  const nb::object& object() const { return object_; }

  Arity arity() const override { return {0, -1, 0, -1}; }
  TopShapes top_shapes() const override {
    if (is_data()) return TopShapes::per_batch;
    return follows_values_ ? TopShapes::from_values : TopShapes::fixed;
  }
  bool has_unbounded_tops() const override { return true; }
  bool has_gradient(int /*top*/) const override { return !is_data(); }
  std::string changes() const override { return "the attributes of its Python object"; }
  const CarriesState* carries_state() const override { return has_state_ ? this : nullptr; }

  void setup(Blobs bottom, Blobs top) override {
    shaped_.assign(top.size(), false);
    setting_up_ = true;
    call("setup", bottom, top);
    setting_up_ = false;
    for (const auto& parameter : params()) {
      Tensor first(parameter->shape(), parameter->data.dtype());
      first.copy_from(parameter->data);
      first_values_.push_back(std::move(first));
    }
    if (is_data())
      batches_.emplace(ahead_, top, [this](BatchesAhead::Batch& batch) { make_batch(batch); });
  }

  void reshape(Blobs bottom, Blobs top) override {
    if (!is_data()) return set_shapes(bottom, top);
    if (batches_->present() != nullptr) return take_shapes(top);
    if (!batches_->runs_ahead()) set_shapes(bottom, top);
  }

  void fetch(Blobs top) override {
    if (ahead_ > 0 && has_state_ && !batches_->runs_ahead()) state_ = state_of_object();
    batches_->next();
    take_shapes(top);
  }

  void forward_cpu(Blobs bottom, Blobs top) override {
    if (is_data()) {
      BatchesAhead::Batch* const batch = batches_->present();
      // None if a script runs backward at once.
      if (batch == nullptr) return;
      for (size_t t = 0; t < top.size(); ++t) top[t]->data.copy_from(batch->tops[t]->data);
      state_ = std::move(batch->state);
      batches_->release();
      return;
    }
    // As published: before each pass. What it draws or allocates there belongs to the pass.
    set_shapes(bottom, top);
    each_in_place(bottom, top, [](const Blob& from, Blob& to) {
      if (from.shape() == to.shape()) to.data.copy_from(from.data);
    });
    if (follows_values_) {
      call("forward", bottom, top);
      return check_shaped();
    }
    std::vector<Shape> shapes;
    for (const Blob* blob : top) shapes.push_back(blob->shape());
    call("forward", bottom, top);
    if (!std::ranges::equal(top, shapes, {}, &Blob::shape))
      throw Error(
          "changed the shape of a top in forward, although its class says that "
          "`shapes_from_values = False`; leave that out");
    check_shaped();
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (is_data()) return;
    // As published, a backward() that only says `pass` gives no gradient: its memory may be that of
    // other values here.
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate[i]) bottom[i]->diff.fill(0);
    }
    const Lent lent;
    call_python([&] {
      nb::list flags;
      for (const bool flag : propagate) flags.append(nb::bool_(flag));
      object_.attr("backward")(lent.list(top, context()), flags, lent.list(bottom, context()));
    });
  }

  void prepare_reference(Blobs /*bottom*/, Blobs /*top*/) override {
    for (size_t i = 0; i < first_values_.size(); ++i) {
      Tensor& values = params()[i]->data;
      if (values.count() > 0 && std::isnan(values.at(0))) values.copy_from(first_values_[i]);
    }
    first_values_.clear();
  }

  std::vector<Tensor> carried() const override {
    // The object is ahead of the net.
    if (batches_ && batches_->runs_ahead()) return copies_of(state_);
    return state_of_object();
  }

  void carry(const std::vector<Tensor>& state) override {
    if (state.empty()) return;
    if (batches_) batches_->stop();
    const Tensor& stored = state[0];
    call_python([&] {
      const nb::bytes numbers(stored.read<double>(), stored.bytes());
      object_.attr("set_state")(nb::module_::import_("crema._layer").attr("decode_state")(numbers));
    });
  }

 private:
  bool is_data() const { return param().bottom_size() == 0; }

  void take_shapes(Blobs top) const {
    const BatchesAhead::Batch& batch = *batches_->present();
    for (size_t t = 0; t < top.size(); ++t) top[t]->reshape(batch.tops[t]->shape());
  }

  /// The bottom of top t's name, if the layer runs in place there.
  std::optional<int> in_place_of(int t) const {
    const auto& bottoms = param().bottom();
    const auto found = std::ranges::find(bottoms, param().top(t));
    if (found == bottoms.end()) return std::nullopt;
    return static_cast<int>(found - bottoms.begin());
  }

  /// Calls body(bottom, top) for each top in place. pycaffe has one blob for both; here, the top
  /// begins as the bottom is.
  template <class Body>
  void each_in_place(Blobs bottom, Blobs top, const Body& body) const {
    for (int t = 0; t < param().top_size(); ++t) {
      if (const auto b = in_place_of(t))
        body(*bottom[static_cast<size_t>(*b)], *top[static_cast<size_t>(t)]);
    }
  }

  /// Error if there is no reshape() that may leave a shape to forward().
  void set_shapes(Blobs bottom, Blobs top) const {
    each_in_place(bottom, top, [&](const Blob& from, Blob& to) { to.reshape(from.shape()); });
    call("reshape", bottom, top);
    if (!has_reshape_) check_shaped();
  }

  /// Error if no method has ever set the shape of a top, which would be that of one value then.
  void check_shaped() const {
    size_t top = 0;
    while (top < shaped_.size() && (shaped_[top] || in_place_of(static_cast<int>(top)))) ++top;
    if (top == shaped_.size()) return;
    const char* const like = is_data() ? "batch, 3, 224, 224" : "*bottom[0].shape";
    throw Error("class ", param().python_param().layer(),
                has_reshape_ ? " has set no shape of top '"
                             : " has no reshape(), and sets no shape of top '",
                param().top(static_cast<int>(top)),
                "'; define reshape(self, bottom, top) with top[", top, "].reshape(", like,
                ") in it");
  }

  /// In the net's thread, or ahead of it.
  void make_batch(BatchesAhead::Batch& batch) const {
    const std::vector<Blob*> tops = batch.blobs();
    call("reshape", {}, tops);
    call("forward", {}, tops);
    check_shaped();
    if (ahead_ > 0 && has_state_) batch.state = state_of_object();
  }

  /// What its state() returns, as numbers.
  std::vector<Tensor> state_of_object() const {
    return call_python([&] {
      const auto encode = nb::module_::import_("crema._layer").attr("encode_state");
      const auto numbers = nb::cast<nb::bytes>(encode(object_.attr("state")()));
      Tensor tensor(Shape{static_cast<int64_t>(numbers.size() / sizeof(double))}, DType::f64);
      std::memcpy(tensor.overwrite<double>(), numbers.c_str(), tensor.bytes());
      std::vector<Tensor> state;
      state.push_back(std::move(tensor));
      return state;
    });
  }

  static std::vector<Tensor> copies_of(const std::vector<Tensor>& state) {
    std::vector<Tensor> copies;
    for (const Tensor& tensor : state) copies.push_back(tensor.to(DType::f64, Format::contiguous));
    return copies;
  }

  void call(const char* method, Blobs bottom, Blobs top) const {
    const Lent lent;
    call_python([&] {
      object_.attr(method)(lent.list(bottom, context()), lent.list(top, context(), &shaped_));
    });
  }

  BlobView declare(const std::vector<int64_t>& dims) {
    Parameter& parameter =
        add_param(Shape(dims), Filler::constant(std::numeric_limits<double>::quiet_NaN()));
    parameter.data.fill(0);
    return {parameter, context(), nullptr, alive_};
  }

  nb::object object_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool has_state_ = false, has_reshape_ = true, follows_values_ = true, setting_up_ = false;
  mutable std::vector<bool> shaped_;  // by top: a method has set its shape
  std::vector<Tensor> first_values_;  // of params(), until they are written
  // Of a source.
  int ahead_ = 0;
  std::vector<Tensor> state_;  // behind the last batch that the net has used, if it runs ahead
  std::optional<BatchesAhead> batches_;
};

}  // namespace

nb::object object_of(const Layer& layer) {
  const auto* const python = dynamic_cast<const PythonLayer*>(&layer);
  return python != nullptr ? python->object() : nb::none();
}

void bind_python_layer(nb::module_& module) {
  Registry::instance().add<PythonLayer>("Python");
  // Threads that ask for the GIL later than that would never get it.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    if (is_forked()) return;
    const nb::gil_scoped_release release;
    BatchesAhead::stop_all();
  }));
  module.def(
      "layer_types", [] { return Registry::instance().types(); },
      "The types that a layer of a prototxt may have, those of plug-ins too.");
}

}  // namespace crema::python
