// What the converters' commands say while and after they work.
#pragma once

#include <string>

#include "data/converters/converters.hpp"

namespace crema::tools {

/// Draws "N of M records" on a terminal, in a line that ends when the function returned dies; logs
/// every 1,000 records, called `what`, elsewhere, as published tools do. Throws Interrupted after a
/// signal; it has the signals until it dies, and only one may live at a time.
ConvertProgress show_progress(const std::string& what = "records");

/// Logs the problems and the counts.
void report(const ConvertReport& result, const std::string& output);

}  // namespace crema::tools
