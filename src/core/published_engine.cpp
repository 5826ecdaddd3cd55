#include "core/published_engine.hpp"

#include <algorithm>
#include <iterator>

#include "crema/layer.hpp"
#include "proto/layer.pb.h"

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

std::string own_engine(const LayerParameter& param) {
  return is_published_engine(param.engine()) ? std::string() : param.engine();
}

std::string forced_engine(const Layer& layer) {
  std::string own = own_engine(layer.param());
  return own.empty() ? layer.context().engine() : own;
}

}  // namespace crema
