// Arrays for MemoryData::set(), and the producer's end of MemoryData::feed(), for a thread of
// Python: crema/_data.py. It copies samples, transforms images and waits for room without the GIL.
#include "python/memory_data.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "crema/memory_data.hpp"
#include "proto/layer.pb.h"
#include "python/errors.hpp"
#include "python/net.hpp"
#include "python/waiting.hpp"

namespace crema::python {
namespace {

using Answer = MemoryFeed::Answer;
using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct SharedFeed {
  std::shared_ptr<MemoryFeed> feed;
  nb::tuple record;
  int64_t batch_size = 0;
  bool has_labels = false;
};

template <class Array>
Tensor copy_of(const Array& array, DType dtype) {
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < array.ndim(); ++axis)
    dims.push_back(static_cast<int64_t>(array.shape(axis)));
  Tensor tensor(Shape(std::move(dims)), dtype);
  using T = std::remove_const_t<typename Array::Scalar>;
  std::copy_n(array.data(), array.size(), tensor.overwrite<T>());
  return tensor;
}

void make_feed(SharedFeed* made, const SharedNet& net, const std::string& name, int depth,
               bool restarts) {
  Layer& layer = net.holder->net().layer(name);
  MemoryData& memory = MemoryData::of(layer);
  const MemoryDataParameter& param = layer.param().memory_data_param();
  auto feed = net.holder->alone([&] {
    return memory.feed({.depth = depth, .restarts = restarts, .on_wait = look_for_signals});
  });
  new (made)
      SharedFeed{std::move(feed), nb::make_tuple(param.channels(), param.height(), param.width()),
                 param.batch_size(), layer.param().top_size() > 1};
}

template <class Array>
std::span<const typename Array::Scalar> span_of(const Array& array) {
  return {array.data(), array.size()};
}

Answer give(const SharedFeed& self, const Floats& samples, const Labels& labels) {
  const nb::gil_scoped_release release;
  return self.feed->give(span_of(samples), span_of(labels));
}

Answer give_images(const SharedFeed& self, const Bytes& images, const Labels& labels, bool hwc) {
  std::vector<int64_t> dims;
  for (size_t axis = 1; axis < 4; ++axis) dims.push_back(static_cast<int64_t>(images.shape(axis)));
  const nb::gil_scoped_release release;
  return self.feed->give_images(span_of(images), Shape(std::move(dims)), span_of(labels),
                                hwc ? ImageAxes::hwc : ImageAxes::chw);
}

/// The shape of samples (n, C, H, W) that are given as that, as rows, or, of one channel, as
/// (n, H, W); else the one that they have, which MemoryData refuses.
Shape samples_shape(const Shape& given, const MemoryDataParameter& param) {
  const int64_t channels = param.channels(), height = param.height(), width = param.width();
  const bool is_rows = given.rank() == 2 && given[1] == channels * height * width;
  const bool is_planes =
      given.rank() == 3 && channels == 1 && given[1] == height && given[2] == width;
  return is_rows || is_planes ? Shape({given[0], channels, height, width}) : given;
}

/// Gives a MemoryData layer samples: copies of the arrays.
void set_memory_data(const SharedNet& net, const std::string& name, const Floats& data,
                     const Floats& labels) {
  Layer& layer = net.holder->net().layer(name);
  MemoryData& memory = MemoryData::of(layer);
  net.holder->alone([&] {
    const Tensor samples = copy_of(data, DType::f32);
    memory.set(samples.view(samples_shape(samples.shape(), layer.param().memory_data_param())),
               copy_of(labels, DType::f32));
  });
}

/// The next pass raises `error`, an exception.
void fail(const SharedFeed& self, const nb::handle& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  const std::exception_ptr thrown = std::make_exception_ptr(PythonError(nb::python_error()));
  const nb::gil_scoped_release release;
  self.feed->fail(thrown);
}

/// The next pass raises a crema.Error with this message, which names the layer.
void refuse(const SharedFeed& self, const std::string& message) {
  const nb::gil_scoped_release release;
  self.feed->fail(std::make_exception_ptr(Error(message)));
}

}  // namespace

void bind_memory_data(nb::module_& module) {
  module.def("set_memory_data", set_memory_data, nb::arg("net"), nb::arg("layer"), nb::arg("data"),
             nb::arg("labels"));
  nb::enum_<Answer>(module, "FeedAnswer")
      .value("more", Answer::more)
      .value("restart", Answer::restart)
      .value("closed", Answer::closed);
  nb::class_<SharedFeed>(module, "Feed", nb::is_weak_referenceable())
      .def("__init__", make_feed, nb::arg("net"), nb::arg("layer"), nb::kw_only(), nb::arg("depth"),
           nb::arg("restarts"))
      .def_ro("record", &SharedFeed::record)
      .def_ro("batch_size", &SharedFeed::batch_size)
      .def_ro("has_labels", &SharedFeed::has_labels)
      .def("give", give, nb::arg("samples"), nb::arg("labels"))
      .def("give_images", give_images, nb::arg("images"), nb::arg("labels"), nb::arg("hwc"))
      .def(
          "end_epoch",
          [](const SharedFeed& self, bool drop_rest) {
            const nb::gil_scoped_release release;
            return self.feed->end_epoch(drop_rest);
          },
          nb::arg("drop_rest"))
      .def("fail", fail, nb::arg("error"))
      .def("refuse", refuse, nb::arg("message"))
      .def("begin",
           [](const SharedFeed& self) {
             const MemoryFeed::Position at = self.feed->begin();
             return nb::make_tuple(at.epoch, at.sample);
           })
      .def("close", [](const SharedFeed& self) {
        const nb::gil_scoped_release release;
        self.feed->close();
      });
}

}  // namespace crema::python
