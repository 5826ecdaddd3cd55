// The program crema in a process of Python, where nets may have layers written in Python.
#include "tools/program.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <csignal>
#include <string>
#include <vector>

#include "python/program.hpp"

namespace crema::python {
namespace {

int run_program(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // The program's own ways with Ctrl-C and with readers that go away.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  const nb::gil_scoped_release release;
  return tools::run_program(static_cast<int>(words.size()), pointers.data());
}

}  // namespace

void bind_program(nb::module_& module) {
  module.def("run_program", run_program, nb::arg("words"),
             "Runs the program with these words, its name first; once in a process. Returns the "
             "exit status.");
}

}  // namespace crema::python
