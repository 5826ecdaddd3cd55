#include "python/errors.hpp"

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "python/messages.hpp"

namespace crema::python {
namespace {

constexpr const char* kDoc =
    "A failure of Crema. str() names the place and the way out.\n\n"
    "Attributes: message (without the place), file, line, column (of the prototxt; None where it\n"
    "is unknown), layer (its name, or None), path (the file that it is about, or None).";

PyObject* error_type = nullptr;  // lives as long as the process

nb::object or_none(const std::string& bytes) {
  if (bytes.empty()) return nb::none();
  return decoded(bytes);
}

nb::object or_none(int number) {
  if (number == 0) return nb::none();
  return nb::int_(number);
}

/// str() of an object; empty if it fails. Texts may have characters that UTF-8 does not have.
std::string text_of(nb::handle object) {
  const nb::object said = nb::steal(PyObject_Str(object.ptr()));
  const nb::object bytes =
      said.is_valid()
          ? nb::steal(PyUnicode_AsEncodedString(said.ptr(), "utf-8", "backslashreplace"))
          : nb::object();
  if (!bytes.is_valid()) {
    PyErr_Clear();
    return {};
  }
  return string_of(nb::borrow<nb::bytes>(bytes));
}

std::string described(const nb::python_error& error) {
  const std::string name = text_of(nb::getattr(error.type(), "__name__", nb::none()));
  const std::string said = text_of(error.value());
  return said.empty() ? name : text(name, ": ", said);
}

/// The message with options of C++ as Python has them.
std::string in_python(std::string message) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"NetOptions::Backward::yes", "backward=True"},
      {"NetOptions::keep", "keep=[...]"},
      {"build the net without fusion", "build it without optimize=True"},
      {"ContextOptions::device", "crema.Context(device=0)"},
      {"ContextOptions::engine", "crema.Context(engine=...)"},
  };
  for (const auto& [name, python] : kNames) {
    for (size_t at = 0; (at = message.find(name, at)) != std::string::npos; at += python.size())
      message.replace(at, name.size(), python);
  }
  return message;
}

void raise_error(const Error& error) {
  const nb::object made = nb::handle(error_type)(decoded(in_python(error.what())));
  made.attr("message") = or_none(in_python(error.message()));
  made.attr("file") = or_none(error.position().file);
  made.attr("line") = or_none(error.position().line);
  made.attr("column") = or_none(error.position().column);
  made.attr("layer") = or_none(error.layer());
  made.attr("path") = or_none(error.path());
  PyErr_SetObject(error_type, made.ptr());
}

/// Raises what Python code raised, with a note of the place where the library called it.
void raise_again(const PythonError& error) {
  nb::python_error& cause = error.cause();
  std::string note;
  if (!error.layer().empty()) note = text("in layer '", error.layer(), "'");
  if (error.position().known()) note += text(note.empty() ? "at " : " at ", error.position().str());
  const nb::handle value = cause.value();
  if (!note.empty() && nb::hasattr(value, "add_note")) value.attr("add_note")(note.c_str());
  cause.restore();
}

void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PythonError& error) {
    raise_again(error);
  } catch (const Error& error) {
    raise_error(error);
  }
}

}  // namespace

nb::object decoded(const std::string& bytes) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

PythonError::PythonError(const nb::python_error& cause)
    : Error(described(cause)), cause_(std::make_shared<nb::python_error>(cause)) {}

void bind_errors(nb::module_& module) {
  error_type = PyErr_NewExceptionWithDoc("crema.Error", kDoc, PyExc_RuntimeError, nullptr);
  if (error_type == nullptr) throw nb::python_error();
  for (const char* name : {"message", "file", "line", "column", "layer", "path"})
    nb::handle(error_type).attr(name) = nb::none();
  module.attr("Error") = nb::handle(error_type);
  nb::register_exception_translator(translate, nullptr);
}

}  // namespace crema::python
