// crema._crema: what the package crema calls. src/python/README.md says who calls whom.
#include <nanobind/nanobind.h>

#include "python/analysis.hpp"
#include "python/blob.hpp"
#include "python/classifier_net.hpp"
#include "python/context.hpp"
#include "python/errors.hpp"
#include "python/fork.hpp"
#include "python/log.hpp"
#include "python/memory_data.hpp"
#include "python/net.hpp"
#include "python/program.hpp"
#include "python/python_layer.hpp"
#include "python/solver.hpp"

NB_MODULE(_crema, module) {
  using namespace crema::python;
  // Arrays may live longer than the interpreter's modules.
  nanobind::set_leak_warnings(false);
  module.attr("version") = CREMA_VERSION;
  watch_forks();
  bind_errors(module);
  bind_log(module);
  bind_context(module);
  bind_blob(module);
  bind_net(module);
  bind_solver(module);
  bind_analysis(module);
  bind_memory_data(module);
  bind_classifier_net(module);
  bind_python_layer(module);
  bind_program(module);
}
