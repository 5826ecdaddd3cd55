// What a user can do where the memory of a device does not suffice for a net.
#pragma once

#include "core/memory_error.hpp"

namespace crema {

struct Plan;

/// The message of `error`, with what the net has planned for the device and how it can take less.
[[noreturn]] void throw_out_of_memory(const Plan& plan, const MemoryError& error);

/// Runs `body`, which takes memory of the plan's device.
template <class Body>
decltype(auto) taking_memory(const Plan& plan, const Body& body) {
  try {
    return body();
  } catch (const MemoryError& error) {
    throw_out_of_memory(plan, error);
  }
}

}  // namespace crema
