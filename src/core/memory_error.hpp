#pragma once

#include "crema/error.hpp"

namespace crema {

/// The memory does not suffice. What was to be put there need not be damaged.
class MemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace crema
