// crema layers: lists the layer types, or prints the page of one.
#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "crema/registry.hpp"
#include "tools/columns.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/pages.hpp"

DEFINE_string(like, "", "print the layer types whose names hold this word, or the nearest");

namespace crema::tools {
namespace {

/// A line for each type, with its other names behind it.
void list(const std::vector<std::string>& types) {
  Table rows;
  std::map<std::string, size_t> row_of_type;
  // Second names come last. Of two that are second names of each other, the first by the alphabet
  // has the line.
  for (const bool second : {false, true}) {
    for (const std::string& type : types) {
      const Page* page = find_page(type);
      const std::string first = page != nullptr ? page->same_as : "";
      if (first.empty() == second) continue;
      if (const auto row = row_of_type.find(first); row != row_of_type.end()) {
        rows[row->second][0] += ", " + type;
        continue;
      }
      row_of_type[type] = rows.size();
      rows.push_back({type, page != nullptr ? page->summary : "(of a plug-in)"});
    }
  }
  std::ranges::sort(rows, {}, [](const TableRow& row) { return row[0]; });
  std::ostringstream out;
  print_table(rows, out, terminal_width(), 0);
  print_whole(out.str());
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The types whose names hold the word or are part of it, whatever its case; else the one with the
/// nearest name.
std::vector<std::string> types_like(const std::string& word,
                                    const std::vector<std::string>& types) {
  std::vector<std::string> found;
  for (const std::string& type : types) {
    constexpr size_t kShort = 4;  // names that words hold by chance
    const bool is_part =
        type.size() >= kShort && lower(word).find(lower(type)) != std::string::npos;
    if (is_part || lower(type).find(lower(word)) != std::string::npos) found.push_back(type);
  }
  if (!found.empty()) return found;
  const std::string nearest = nearest_name(word, types);
  if (nearest.empty()) throw Error("no layer type is like '", word, "'; `crema layers` lists them");
  return {nearest};
}

int layers(const std::vector<std::string>& arguments) {
  load_plugins();
  const std::vector<std::string> types = Registry::instance().types();
  if (!FLAGS_like.empty()) {
    if (!arguments.empty())
      throw Error("--like lists types, and '", arguments[0], "' asks for a page; give one of them");
    list(types_like(FLAGS_like, types));
    return 0;
  }
  if (arguments.empty()) {
    list(types);
    return 0;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& type = arguments[i];
    if (!Registry::instance().has(type))
      throw Error("there is no layer type '", type, "'", did_you_mean(type, types),
                  "; `crema layers` lists them");
    const Page* page = find_page(type);
    if (page == nullptr)
      throw Error("layer type '", type, "' is of a plug-in, which brings no page");
    print_whole((i > 0 ? "\n" : "") + page->for_terminal(terminal_width()));
  }
  return 0;
}

}  // namespace

extern const Command kLayers = {
    "layers",
    "lists the layer types, or explains one",
    "  crema layers\n"
    "  crema layers TYPE [TYPE...]\n"
    "  crema layers --like NAME\n"
    "\n"
    "A line for each layer type; or the page of a type: formula, shapes, a\n"
    "sample, all parameters with defaults, engines; or the types whose names\n"
    "hold NAME or are part of it, else the nearest.",
    {"like", "plugin"},
    layers};

}  // namespace crema::tools
