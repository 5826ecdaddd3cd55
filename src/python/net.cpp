#include "python/net.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "crema/onnx.hpp"
#include "crema/parameter_arena.hpp"
#include "model/text_format.hpp"
#include "net/plan.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"
#include "python/batches_ahead.hpp"
#include "python/blob.hpp"
#include "python/errors.hpp"
#include "python/in_place.hpp"
#include "python/messages.hpp"
#include "python/python_layer.hpp"
#include "python/unrun_layers.hpp"

namespace crema::python {

NetHolder::NetHolder(std::shared_ptr<Context> context, std::unique_ptr<Net> net)
    : context_(std::move(context)),
      busy_(std::make_shared<std::recursive_mutex>()),
      own_(std::move(net)),
      net_(own_.get()) {}

NetHolder::NetHolder(std::shared_ptr<Context> context, std::shared_ptr<void> owner,
                     std::shared_ptr<std::recursive_mutex> busy, Net& net)
    : context_(std::move(context)), owner_(std::move(owner)), busy_(std::move(busy)), net_(&net) {}

NetHolder::~NetHolder() {
  if (is_forked()) {  // the threads that it would wait for are not in this process
    static_cast<void>(own_.release());
  } else if (own_ && BatchesAhead::makes_them_here()) {
    BatchesAhead::destroy_elsewhere(
        {own_.release(), [context = context_](Net* net) { delete net; }});
  }
}

namespace {

/// Whether a net of phase TEST has a backward pass: it asks for gradients, or has a loss.
bool wants_backward(const NetParameter& param) {
  if (param.force_backward()) return true;
  const auto is_loss = [](const LayerParameter& layer) {
    const auto& weights = layer.loss_weight();
    return layer.type().find("Loss") != std::string::npos ||
           std::ranges::any_of(weights, [](float weight) { return weight != 0; });
  };
  return std::ranges::any_of(param.layer(), is_loss);
}

void make_net(SharedNet* made, const SharedContext& context, const nb::bytes& source,
              const std::string& kind, bool train, const std::vector<nb::bytes>& weights, int level,
              const std::vector<std::string>& stages, bool optimize, std::optional<bool> backward,
              const SharedNet* share_with, const std::vector<std::string>& keep,
              size_t memory_budget) {
  NetOptions options;
  options.phase = train ? Phase::train : Phase::test;
  options.level = level;
  options.stages = stages;
  for (const nb::bytes& path : weights) options.weights.push_back(string_of(path));
  options.keep_all = !optimize;
  options.keep = keep;
  options.memory_budget = memory_budget;
  if (share_with != nullptr) options.share_params_with = &share_with->holder->net();
  const std::string bytes = string_of(source);
  need_threads();
  const nb::gil_scoped_release release;
  NetParameter param;
  SourceMap map;
  read_message(bytes, kind, param, map);
  const bool runs_back = backward.value_or(train || (!optimize && wants_backward(param)));
  options.backward = runs_back ? NetOptions::Backward::yes : NetOptions::Backward::no;
  auto net = std::make_unique<Net>(param, map, *context.context, options);
  new (made) SharedNet{std::make_shared<NetHolder>(context.context, std::move(net))};
}

/// The blobs whose values are kept, in the order of the net.
std::vector<std::string> blob_names(const SharedNet& self) {
  std::vector<std::string> names;
  for (std::string& name : self.holder->net().blob_names()) {
    try {
      self.holder->net().blob(name);
    } catch (const Error&) {  // fused away, or not kept
      continue;
    }
    names.push_back(std::move(name));
  }
  return names;
}

BlobView blob(const SharedNet& self, const std::string& name) {
  const std::shared_ptr<NetHolder> holder = self.holder;
  Net& net = holder->net();
  const auto reshape = [holder, &net, name](const Shape& shape) {
    if (shape == net.blob(name).shape()) return;
    if (std::ranges::count(net.inputs(), name) == 0)
      throw Error("blob '", name, "' is no input of the net: its shape, ",
                  net.blob(name).shape().str(), ", follows from those of the inputs");
    holder->alone([&] { net.reshape_input(name, shape); });
  };
  return {net.blob(name), net.context(), reshape, holder};
}

Layer& layer_at(const SharedNet& self, size_t index) {
  const auto& layers = self.holder->net().layers();
  if (index >= layers.size()) throw nb::index_error("there is no such layer");
  return *layers[index];
}

/// (name, type, bottoms, tops) of each layer.
nb::list layers(const SharedNet& self) {
  nb::list all;
  for (const Layer* layer : self.holder->net().layers()) {
    nb::list bottoms, tops;
    for (const std::string& name : layer->param().bottom()) bottoms.append(name);
    for (const std::string& name : layer->param().top()) tops.append(name);
    all.append(nb::make_tuple(layer->name(), layer->type(), bottoms, tops));
  }
  return all;
}

std::vector<BlobView> layer_blobs(const SharedNet& self, size_t index) {
  std::vector<BlobView> blobs;
  for (const auto& parameter : layer_at(self, index).params())
    blobs.emplace_back(*parameter, self.holder->net().context(), self.holder);
  return blobs;
}

/// The object of a layer of type Python; None for other layers.
nb::object layer_object(const SharedNet& self, size_t index) {
  return object_of(layer_at(self, index));
}

double forward(const SharedNet& self) {
  return self.holder->alone([&] {
    before_forward(self.holder->net());
    return self.holder->net().forward();
  });
}

/// The seconds of so many passes, as C++ measures them; to compare with those in Python.
std::vector<double> forward_times(const SharedNet& self, int passes) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  self.holder->alone([&] {
    for (int pass = 0; pass < passes; ++pass) {
      const auto begin = Clock::now();
      self.holder->net().forward();
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  });
  return seconds;
}

double forward_part(const SharedNet& self, size_t first, size_t last) {
  Net& net = self.holder->net();
  return self.holder->alone([&] {
    if (first == 0 && last + 1 == net.layers().size()) {
      before_forward(net);
      return net.forward();
    }
    // Later layers may refuse the shapes.
    reshape_to(Plan::of(net), last);
    before_forward(net, first, last);
    const double loss = net.forward(first, last);
    after_forward(net, first, last);
    return loss;
  });
}

/// Error, as Python has it, unless the net has a backward pass.
void need_backward(Net& net) {
  if (Plan::of(net).trains) return;
  throw Error("net '", net.name(),
              "' was built without backward; make it with crema.Net(..., backward=True), or "
              "phase=crema.TRAIN");
}

void backward(const SharedNet& self) {
  Net& net = self.holder->net();
  self.holder->alone([&] {
    need_backward(net);
    run_unrun_layers(net, net.layers().size() - 1, 0);
    net.backward();
    after_backward(net, net.layers().size() - 1, 0);
  });
}

void backward_part(const SharedNet& self, size_t first, size_t last) {
  Net& net = self.holder->net();
  self.holder->alone([&] {
    need_backward(net);
    run_unrun_layers(net, first, last);
    before_backward(net, first, last);
    net.backward(first, last);
    after_backward(net, first, last);
  });
}

void clear_gradients(const SharedNet& self) {
  self.holder->alone([&] {
    Net& net = self.holder->net();
    net.clear_gradients();
    // Arrays that scripts hold show it.
    net.params().settle_gradients();
  });
}

LoadReport load(const SharedNet& self, const nb::bytes& source, bool is_message, bool strict) {
  const std::string bytes = string_of(source);
  return self.holder->alone([&] {
    if (!is_message) return self.holder->net().load_weights(bytes, strict);
    NetParameter weights;
    SourceMap map;
    read_message(bytes, "message", weights, map);
    return self.holder->net().load_weights(weights, strict);
  });
}

void save(const SharedNet& self, const nb::bytes& path) {
  const std::string name = string_of(path);
  self.holder->alone([&] { self.holder->net().save_weights(name); });
}

/// `weights`: files that the net was loaded from, of which the last that says where its weights
/// come from counts.
OnnxReport save_as_onnx(const SharedNet& self, const nb::bytes& path, int opset, bool dynamic_batch,
                        bool fold, bool preprocess, const std::vector<nb::bytes>& weights) {
  const std::string name = string_of(path);
  std::vector<std::string> files;
  for (const nb::bytes& file : weights) files.push_back(string_of(file));
  return self.holder->alone([&] {
    Origin origin;
    for (const std::string& file : files) {
      const Origin written = origin_of_net(file);
      if (written.ByteSizeLong() > 0) origin = written;
    }
    OnnxOptions options{
        .opset = opset, .dynamic_batch = dynamic_batch, .fold = fold, .preprocess = preprocess};
    if (origin.ByteSizeLong() > 0) options.origin = &origin;
    return save_onnx(self.holder->net(), name, options);
  });
}

nb::bytes message(const SharedNet& self, bool with_weights) {
  NetParameter param;
  self.holder->alone([&] { self.holder->net().save(param); });
  if (!with_weights) {
    for (LayerParameter& layer : *param.mutable_layer()) layer.clear_blobs();
  }
  return bytes_of(param);
}

std::string prototxt(const SharedNet& self) {
  NetParameter param;
  self.holder->alone([&] { self.holder->net().save(param); });
  for (LayerParameter& layer : *param.mutable_layer()) layer.clear_blobs();
  return prototxt_of(param);
}

/// Error, which says how, unless the parameters of both are alike.
void check_alike(const Layer& ours, const Layer& theirs) {
  constexpr const char* kWayOut =
      "; make the settings of the two layers and the shapes that they read alike, or give one of "
      "them another name, so that it is not shared";
  if (ours.params().size() != theirs.params().size())
    throw Error("has ", ours.params().size(), " parameters, and the layer of that name in the net ",
                "whose parameters it is to share has ", theirs.params().size(), kWayOut);
  for (size_t i = 0; i < ours.params().size(); ++i) {
    const Parameter &our = *ours.params()[i], &their = *theirs.params()[i];
    if (our.shape() != their.shape())
      throw Error("its parameter ", i, " is of shape ", our.shape().str(), ", and that of the net ",
                  "whose parameters it is to share of ", their.shape().str(), kWayOut);
    if (our.data.dtype() != their.data.dtype())
      throw Error("its parameter ", i, " is of ", to_string(our.data.dtype()), ", and that of the ",
                  "net whose parameters it is to share of ", to_string(their.data.dtype()),
                  "; nets that share have one type");
  }
}

/// Lets layers use the values of those of the other net that have their names.
void share(Net& ours, Net& theirs) {
  if (&ours.context() != &theirs.context() &&
      (ours.context().on_gpu() || theirs.context().on_gpu()))
    throw Error(
        "nets on a GPU share parameters only if they have one context; make both with the same "
        "context=...");
  const auto each = [&](const auto& body) {
    for (Layer* layer : ours.layers()) {
      if (layer->params().empty() || !theirs.has_layer(layer->name())) continue;
      body(*layer, theirs.layer(layer->name()));
    }
  };
  // All is checked before anything is shared.
  each([](const Layer& layer, const Layer& source) {
    try {
      check_alike(layer, source);
    } catch (Error& error) {
      error.in_layer(layer.name(), layer.type());
      throw;
    }
  });
  each([](Layer& layer, const Layer& source) {
    for (size_t i = 0; i < layer.params().size(); ++i)
      layer.params()[i]->attach(source.params()[i]->storage());
  });
}

void share_with(const SharedNet& self, const SharedNet& other) {
  self.holder->alone([&] { share(self.holder->net(), other.holder->net()); });
}

void reshape(const SharedNet& self) {
  self.holder->alone([&] { self.holder->net().reshape(); });
}

std::vector<std::pair<std::string, std::string>> summary(const SharedNet& self) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const NetStep& step : self.holder->net().steps()) rows.emplace_back(step.name, step.engine);
  return rows;
}

}  // namespace

void bind_net(nb::module_& module) {
  nb::class_<LoadReport>(module, "LoadReport", "What became of each layer's weights.")
      .def_ro("loaded", &LoadReport::loaded, "Names of the layers whose weights were copied.")
      .def_ro("missing", &LoadReport::missing,
              "Names of the layers with parameters that found no weights, and keep theirs.")
      .def_ro("unused", &LoadReport::unused,
              "Names of the layers with weights that the net does not have.")
      .def("__str__", &LoadReport::str);
  nb::class_<OnnxReport>(module, "OnnxReport",
                         "What a model of ONNX has that its reader should know.")
      .def_ro("custom", &OnnxReport::custom,
              "Layers that are operators of the domain \"crema\", as \"name (Type)\".")
      .def_ro("notes", &OnnxReport::notes, "What was left out or written in another way.");
  nb::class_<SharedNet>(module, "Net", nb::is_weak_referenceable())
      .def("__init__", make_net, nb::arg("context"), nb::arg("source"), nb::arg("kind"),
           nb::kw_only(), nb::arg("train"), nb::arg("weights"), nb::arg("level"), nb::arg("stages"),
           nb::arg("optimize"), nb::arg("backward").none(), nb::arg("share_with").none(),
           nb::arg("keep"), nb::arg("memory_budget"))
      .def_prop_ro("name", [](const SharedNet& self) { return self.holder->net().name(); })
      .def_prop_ro("train",
                   [](const SharedNet& self) { return self.holder->net().phase() == Phase::train; })
      .def_prop_ro("inputs", [](const SharedNet& self) { return self.holder->net().inputs(); })
      .def_prop_ro("outputs", [](const SharedNet& self) { return self.holder->net().outputs(); })
      .def("blob_names", blob_names)
      .def("blob", blob, nb::arg("name"))
      .def("loss_weight",
           [](const SharedNet& self, const std::string& name) {
             return self.holder->net().loss_weight(name);
           })
      .def("layers", layers)
      .def("layer_blobs", layer_blobs, nb::arg("index"))
      .def("layer_object", layer_object, nb::arg("index"))
      .def("forward", forward)
      .def("forward_times", forward_times, nb::arg("passes"))
      .def("forward_part", forward_part, nb::arg("first"), nb::arg("last"))
      .def("backward", backward)
      .def("backward_part", backward_part, nb::arg("first"), nb::arg("last"))
      .def("reshape", reshape)
      .def("clear_gradients", clear_gradients)
      .def("load", load, nb::arg("source"), nb::arg("is_message"), nb::arg("strict"))
      .def("save", save, nb::arg("path"))
      .def("save_onnx", save_as_onnx, nb::arg("path"), nb::arg("opset"), nb::arg("dynamic_batch"),
           nb::arg("fold"), nb::arg("preprocess"), nb::arg("weights"))
      .def("message", message, nb::arg("with_weights"))
      .def("prototxt", prototxt)
      .def("share_with", share_with, nb::arg("other"))
      .def("steps", summary);
}

}  // namespace crema::python
