#pragma once

#include <cstddef>

#include "crema/error.hpp"

namespace crema {

/// Runs `body`. Adds the number of the test net to an Error, because test nets and the training net
/// are often in the same file.
template <class Body>
decltype(auto) in_test_net(size_t number, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    error.in_net(text("TEST net #", number));
    throw;
  }
}

}  // namespace crema
