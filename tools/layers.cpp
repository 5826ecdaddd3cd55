// crema layers: lists the layer types, or prints the page of one.
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "crema/registry.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/pages.hpp"

DEFINE_string(like, "", "print the layer types whose names hold this word, or the nearest");

namespace crema::tools {
namespace {

void list(const std::vector<std::string>& types) {
  size_t width = 0;
  for (const std::string& type : types) width = std::max(width, type.size());
  for (const std::string& type : types) {
    const Page* page = find_page(type);
    std::printf("%-*s  %s\n", static_cast<int>(width), type.c_str(),
                page ? page->summary.c_str() : "(of a plug-in)");
  }
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
    std::printf("%s%s", i > 0 ? "\n" : "", page->for_terminal().c_str());
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
