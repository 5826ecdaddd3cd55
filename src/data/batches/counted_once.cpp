#include "data/batches/counted_once.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "core/counts_images.hpp"
#include "core/data_source.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The source that makes a bottom of the layer, the last one first; else the first source; null:
/// none.
const DataSource* source_of(const Layer& layer, const std::vector<Layer*>& layers) {
  const DataSource* first = nullptr;
  const auto& bottoms = layer.param().bottom();
  for (auto bottom = bottoms.rbegin(); bottom != bottoms.rend(); ++bottom) {
    for (const Layer* other : layers) {
      const DataSource* source = other->data_source();
      if (source == nullptr) continue;
      if (first == nullptr) first = source;
      if (std::ranges::count(other->param().top(), *bottom) > 0) return source;
    }
  }
  return first;
}

}  // namespace

struct CountedOnce::Counter {
  CountsImages* layer;
  const DataSource* source;
  std::unordered_set<int64_t> seen = {};  // numbers of records
  int64_t samples = INT64_MAX;            // of the batch that may count
  std::vector<bool> counted = {};         // of the batch; empty until it is asked for

  std::vector<int64_t> fresh = {};  // records of the batch that were not seen before

  void begin(int64_t most) {
    samples = most;
    counted.clear();
    fresh.clear();
  }
  bool is_new(int64_t record) {
    if (record < 0) return true;  // unknown
    if (!seen.insert(record).second) return false;
    fresh.push_back(record);
    return true;
  }
  bool counts(int64_t image) {
    const int64_t count = source->records_in_batch();
    for (auto i = static_cast<int64_t>(counted.size()); i < count; ++i) {
      counted.push_back(i < samples && !source->is_replaced(i) && is_new(source->record_number(i)));
    }
    return image >= count || counted[static_cast<size_t>(image)];
  }
};

CountedOnce::CountedOnce(const std::vector<Layer*>& layers) {
  for (Layer* layer : layers) {
    CountsImages* counting = layer->counts_images();
    const DataSource* source = counting != nullptr ? source_of(*layer, layers) : nullptr;
    if (source == nullptr) continue;
    Counter& counter =
        *counters_.emplace_back(std::make_unique<Counter>(Counter{counting, source}));
    counting->count_only([&counter](int64_t image) { return counter.counts(image); });
  }
}

CountedOnce::~CountedOnce() {
  for (const auto& counter : counters_) counter->layer->count_only({});
}

void CountedOnce::next_batch(int64_t samples) {
  for (const auto& counter : counters_) counter->begin(samples);
}

void CountedOnce::repeat_batch(int64_t samples) {
  for (const auto& counter : counters_) {
    for (const int64_t record : counter->fresh) counter->seen.erase(record);
    counter->begin(samples);
  }
}

}  // namespace crema
