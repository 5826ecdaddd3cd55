#include "tools/sparkline.hpp"

#include <algorithm>
#include <cmath>

namespace crema::tools {

void Sparkline::add(double value) {
  if (!std::isfinite(value)) return;
  if (parts_.empty() || parts_.back().count == size_) parts_.emplace_back();
  parts_.back().sum += value;
  ++parts_.back().count;
  if (parts_.size() <= signs_) return;
  // Parts of twice the size. The last one is begun alone where their number is odd.
  std::vector<Part> merged;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i % 2 == 0) merged.emplace_back();
    merged.back().sum += parts_[i].sum;
    merged.back().count += parts_[i].count;
  }
  parts_ = std::move(merged);
  size_ *= 2;
}

std::string Sparkline::text() const {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> means;
  for (const Part& part : parts_) means.push_back(part.sum / static_cast<double>(part.count));
  if (means.size() < 2) return "";
  const auto [least, greatest] = std::ranges::minmax(means);
  if (!(greatest > least)) return "";
  std::string bars;
  for (const double mean : means) {
    const double height = (mean - least) / (greatest - least) * (std::size(kBars) - 1);
    bars += kBars[static_cast<size_t>(std::lround(height))];
  }
  return bars;
}

}  // namespace crema::tools
