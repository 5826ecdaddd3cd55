#include "python/context.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "python/errors.hpp"
#include "python/fork.hpp"
#include "python/log.hpp"

namespace crema::python {
namespace {

constexpr const char* kDoc =
    "The device, the threads and the seed of nets.\n\n"
    "device: the number of a GPU, or None for the CPU. threads: 0 for all cores. engine: the name\n"
    "of an engine to force, such as 'reference'. tune: whether engines are measured, and the\n"
    "fastest taken. tuning_file: where times are kept between processes; '' for nowhere.";

void make_context(SharedContext* made, std::optional<int> device, int threads, uint64_t seed,
                  const std::string& engine, bool tune,
                  const std::optional<std::string>& tuning_file) {
  ContextOptions options;
  if (device) options.device = {DeviceType::cuda, *device};
  options.threads = threads;
  options.seed = seed;
  options.engine = engine;
  options.tune = tune;
  options.tuning_file = tuning_file ? *tuning_file : user_tuning_file();
  options.logger = log;
  if (device) need_threads();
  std::shared_ptr<Context> context;
  {
    const nb::gil_scoped_release release;
    context = std::make_shared<Context>(std::move(options));
  }
  new (made) SharedContext{std::move(context)};
}

/// The reason why there is no GPU; None if there is one.
std::optional<std::string> why_no_gpu() {
  std::string why;
  if (!cuda_devices(why).empty()) return std::nullopt;
  return why;
}

}  // namespace

void bind_context(nb::module_& module) {
  nb::class_<SharedContext>(module, "Context", kDoc)
      .def("__init__", make_context, nb::arg("device").none() = nb::none(), nb::kw_only(),
           nb::arg("threads") = 0, nb::arg("seed") = 1701, nb::arg("engine") = "",
           nb::arg("tune") = true, nb::arg("tuning_file").none() = nb::none())
      .def_prop_ro(
          "device",
          [](const SharedContext& self) -> std::optional<int> {
            if (!self.context->on_gpu()) return std::nullopt;
            return self.context->device().index;
          },
          "The number of the GPU; None on the CPU.")
      .def_prop_ro(
          "threads", [](const SharedContext& self) { return self.context->threads(); },
          "How many threads compute.")
      .def_prop_ro(
          "seed", [](const SharedContext& self) { return self.context->seed(); },
          "The seed of fillers and random layers.")
      .def(
          "synchronize",
          [](const SharedContext& self) {
            const nb::gil_scoped_release release;
            if (self.context->on_gpu()) self.context->backend().synchronize();
          },
          "Waits for what the GPU has been given to do; on the CPU nothing is left.");
  module.def("why_no_gpu", why_no_gpu);
}

}  // namespace crema::python
