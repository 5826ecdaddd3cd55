// Errors of the library in Python, and exceptions of Python in the library.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

#include "crema/error.hpp"

namespace crema::python {

namespace nb = nanobind;

/// An exception of Python code that the library called. It unwinds through the library as an Error,
/// so that it learns layer and position; for Python it becomes the exception that it was, with its
/// traceback.
class PythonError : public Error {
 public:
  /// With the GIL.
  explicit PythonError(const nb::python_error& cause);
  nb::python_error& cause() const { return *cause_; }

 private:
  std::shared_ptr<nb::python_error> cause_;
};

/// Takes the GIL and runs `body`, which calls Python. Throws its exceptions as PythonError.
template <class Body>
auto call_python(const Body& body) {
  const nb::gil_scoped_acquire gil;
  try {
    return body();
  } catch (const nb::python_error& error) {
    throw PythonError(error);
  }
}

/// A str of bytes that are UTF-8 but for some of a path, as os.fsdecode() makes it. With the GIL.
nb::object decoded(const std::string& bytes);

/// Adds crema.Error to the module, and tells nanobind of both kinds.
void bind_errors(nb::module_& module);

}  // namespace crema::python
