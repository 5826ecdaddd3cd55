// How an engine that chooses by times came to a choice. It is written in front of the entry of
// Option::choice, so that a summary can tell what was not measured.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema {

enum class DecidedBy : uint8_t {
  times,  // measured, of the problem or a similar one
  run,    // the choice of this run, or of its snapshot
  model,  // what is expected to be the fastest
  order,  // the first candidate
};

/// "" for what was measured or is that of the run.
constexpr std::string_view mark_of(DecidedBy by) {
  if (by == DecidedBy::model) return "by model: ";
  return by == DecidedBy::order ? "untuned: " : "";
}

/// The entry without its mark.
inline std::string without_mark(std::string_view choice) {
  for (const DecidedBy by : {DecidedBy::model, DecidedBy::order}) {
    if (choice.starts_with(mark_of(by))) choice.remove_prefix(mark_of(by).size());
  }
  return std::string(choice);
}

}  // namespace crema
