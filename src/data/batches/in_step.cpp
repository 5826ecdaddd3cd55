#include "data/batches/in_step.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/data_source.hpp"
#include "crema/error.hpp"
#include "data/records/datum.hpp"

namespace crema {
namespace {

const DataSource& source_of(const Layer& layer) { return *layer.data_source(); }

/// The number at the beginning of a key, where it numbers the records.
std::optional<int64_t> number_of(const std::string& key, int64_t place) {
  constexpr ptrdiff_t kPublishedDigits = 8;  // of convert_imageset, which go before "_PATH"
  int64_t number = 0;
  const char* const end = key.data() + key.size();
  const auto [last, error] = std::from_chars(key.data(), end, number);
  if (error != std::errc() || key[0] == '-') return std::nullopt;
  const bool is_whole = last == end;
  const bool is_published = !is_whole && *last == '_' && last - key.data() >= kPublishedDigits;
  if (is_whole || is_published || number == place) return number;
  return std::nullopt;
}

bool are_of_one_record(const std::string& one, const std::string& other, int64_t place) {
  if (one == other) return true;
  const auto first = number_of(one, place), second = number_of(other, place);
  return first && second && *first == *second;
}

}  // namespace

InStep::InStep(const std::vector<Layer*>& layers, std::string net, Logger logger)
    : net_(std::move(net)), logger_(std::move(logger)) {
  std::vector<const Layer*> firsts;  // one for each size of batches
  for (const Layer* layer : layers) {
    const DataSource* source = layer->data_source();
    if (source == nullptr || !source->takes_each_once()) continue;
    const auto first = std::ranges::find_if(firsts, [&](const Layer* other) {
      return source_of(*other).records_per_batch() == source->records_per_batch();
    });
    if (first == firsts.end()) {
      firsts.push_back(layer);
      continue;
    }
    Pair& pair = pairs_.emplace_back(Pair{*first, layer});
    const int64_t one = source_of(**first).records(), other = source->records();
    if (one != other)
      warn(pair, text("have ", one, " and ", other, " records: behind the first ",
                      std::min(one, other), ", records meet that do not belong together"));
  }
}

void InStep::look() {
  for (Pair& pair : pairs_) {
    if (!pair.done) look(pair);
  }
}

void InStep::look(Pair& pair) {
  const DataSource &one = source_of(*pair.one), &other = source_of(*pair.other);
  const int64_t samples = std::min(one.records_in_batch(), other.records_in_batch());
  const bool has_keys = one.has_database_keys() && other.has_database_keys();
  for (int64_t i = 0; i < samples && !pair.done; ++i) {
    const int64_t place = one.record_number(i);
    if (place < 0 || one.is_replaced(i) || other.is_replaced(i)) continue;
    if (place != other.record_number(i)) {
      warn(pair, text("are at records ", place, " and ", other.record_number(i),
                      " of their sources in one sample; set shuffle and rand_skip of both "
                      "alike"));
    } else if (has_keys) {
      const std::string key = one.raw_key(i), other_key = other.raw_key(i);
      if (!are_of_one_record(key, other_key, place))
        warn(pair, text("have the keys '", printable_key(key), "' and '", printable_key(other_key),
                        "' at record ", place, ", which need not belong together"));
    }
  }
  pair.seen += samples;
  if (pair.seen >= one.records()) pair.done = true;
}

void InStep::warn(Pair& pair, const std::string& what) {
  pair.done = true;
  if (!logger_) return;
  logger_(Severity::warning,
          text(net_, net_.empty() ? "" : ": ", "data layers '", pair.one->name(), "' and '",
               pair.other->name(), "' read in step, ", source_of(*pair.one).records_per_batch(),
               " records a batch each, and ", what,
               "; write both sources with the same records in the same order, if they are of "
               "the same samples"));
}

}  // namespace crema
