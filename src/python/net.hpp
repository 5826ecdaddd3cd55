// Net in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "crema/net.hpp"
#include "python/blob.hpp"
#include "python/context.hpp"
#include "python/fork.hpp"

namespace crema::python {

namespace nb = nanobind;

/// A net of its own, or that of a solver, and all that has to live as long as it.
class NetHolder : public std::enable_shared_from_this<NetHolder> {
 public:
  NetHolder(std::shared_ptr<Context> context, std::unique_ptr<Net> net);
  NetHolder(std::shared_ptr<Context> context, std::shared_ptr<void> owner,
            std::shared_ptr<std::recursive_mutex> busy, Net& net);
  ~NetHolder();

  Net& net() const { return *net_; }
  const std::shared_ptr<Context>& context() const { return context_; }

  /// Runs `body` without the GIL, when no other thread runs the net.
  template <class Body>
  auto alone(const Body& body) const {
    need_threads();
    close_unused_views();
    const nb::gil_scoped_release release;
    const std::lock_guard lock(*busy_);
    return body();
  }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<std::recursive_mutex> busy_;
  std::unique_ptr<Net> own_;
  Net* net_;
};

struct SharedNet {
  std::shared_ptr<NetHolder> holder;
};

void bind_net(nb::module_& module);

}  // namespace crema::python
