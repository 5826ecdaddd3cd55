// Checks that code throws crema::Error with a message that says what it has to.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>

#include "crema/error.hpp"

namespace crema {

/// Fails unless body() throws an Error whose text contains every one of `parts`.
template <class Body>
void expect_error(const Body& body, std::initializer_list<std::string_view> parts,
                  std::source_location where = std::source_location::current()) {
  const int line = static_cast<int>(where.line());
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const std::string_view part : parts) {
      if (text.find(part) == std::string::npos) {
        ADD_FAILURE_AT(where.file_name(), line) << "'" << part << "' is missing in: " << text;
      }
    }
    return;
  }
  ADD_FAILURE_AT(where.file_name(), line) << "no Error was thrown";
}

}  // namespace crema
