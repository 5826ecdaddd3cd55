// Messages for people: lines of glog on standard error, which published log parsers read. The
// level is that of the variable GLOG_minloglevel, or what set_log_level() says.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "crema/context.hpp"
#include "crema/solver.hpp"

namespace crema::python {

namespace nb = nanobind;

/// For ContextOptions::logger. Any thread may call it, without the GIL.
void log(Severity severity, const std::string& message);
/// Lines of an iteration that is displayed, and of a test.
void log_iteration(Net& net, const IterationReport& report, double seconds, int iterations);
void log_test(const TestReport& report);
/// At the begin of a training of that net.
void log_solve(const std::string& net, const SolverParameter& param);
/// `path`: that of the state.
void log_snapshot(const std::string& path);

void bind_log(nb::module_& module);

}  // namespace crema::python
