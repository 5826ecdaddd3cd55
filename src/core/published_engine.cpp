#include "core/published_engine.hpp"

#include <algorithm>
#include <iterator>

namespace crema {
namespace {

constexpr std::string_view kEngines[] = {"DEFAULT", "CAFFE", "CUDNN", "MKL2017", "MKLDNN"};
constexpr std::string_view kDevices[] = {"CPU", "GPU", "FPGA", "DLA", "MLSL"};
constexpr std::string_view kSeparators = ":,; ";

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool is_published_engine(std::string_view name) {
  bool first = true;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find_first_of(kSeparators));
    const bool known = contains(kEngines, word) || (!first && contains(kDevices, word));
    if (!word.empty() && !known) return false;
    if (!word.empty()) first = false;
    name.remove_prefix(std::min(word.size() + 1, name.size()));
  }
  return !first;
}

}  // namespace crema
