// A library that is loaded when it is first asked for: a program without it runs.
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>

#include "crema/error.hpp"

namespace crema {

/// The library stays until the program ends.
class SharedLibrary {
 public:
  /// By the name of its file, as "libcupti.so.13".
  explicit SharedLibrary(std::string name)
      : name_(std::move(name)), opened_(::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (opened_ == nullptr)
      missing_ = text(::dlerror(), "; put the folder of ", name_, " into LD_LIBRARY_PATH");
  }

  /// Sets the pointer to the function of that name; to null where there is none.
  template <class Function>
  void take(Function& function, const char* symbol) {
    if (opened_ == nullptr) return;
    function = reinterpret_cast<Function>(::dlsym(opened_, symbol));
    if (function == nullptr && missing_.empty()) missing_ = text(name_, " has no ", symbol);
  }
  /// Why the library, or a function that was asked for, is not there; "": all are.
  const std::string& missing() const { return missing_; }

 private:
  std::string name_;
  void* opened_;
  std::string missing_;
};

}  // namespace crema
