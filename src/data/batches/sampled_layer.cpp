#include "data/batches/sampled_layer.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "crema/error.hpp"
#include "crema/random.hpp"

namespace crema {

SampledLayer::SampledLayer(const LayerInit& init, int64_t batch_size, const char* settings)
    : Layer(init), batch_size_(batch_size) {
  if (batch_size <= 0)
    throw Error(settings, " has no batch_size, or 0; set how many records are a batch");
}

SampledLayer::~SampledLayer() {
  try {
    tell_skipped();
  } catch (...) {  // the caller's logger may throw, and a destructor may not
  }
}

Sampler SampledLayer::make_sampler() const {
  SamplerOptions options = sampling();
  options.seed = run().seed;
  options.rank = run().rank;
  options.shards = run().world_size;
  return Sampler(options);
}

RecordCursor SampledLayer::cursor() const {
  const Sampler sampler = make_sampler();
  uint64_t number = 0;
  if (first_) {
    number = sampler.number_of(*first_);
  } else if (const uint64_t skip = rand_skip(); skip > 0) {
    number = Random(run().seed, stream_id("rand_skip")).below(skip);
  }
  return sampler.cursor_at(number + taken_);
}

void SampledLayer::set_cursor(const RecordCursor& cursor) {
  make_sampler().seek(cursor);
  stop();
  first_ = cursor;
}

void SampledLayer::restart() {
  stop();
  first_.reset();
}

bool SampledLayer::end_batches(const BatchEnd& end) {
  if (end.records > 0 && (!ends_early() || run().world_size != 1)) return false;
  const RecordCursor at = cursor();
  stop();
  first_ = at;
  end_ = end;
  return true;
}

bool SampledLayer::set_batch_size(int64_t samples) {
  if (!ends_early()) return false;
  const RecordCursor at = cursor();
  stop();
  first_ = at;
  batch_size_ = samples;
  return true;
}

void SampledLayer::start() {
  first_ = cursor();
  Sampler sampler = make_sampler();
  sampler.seek(*first_);
  prefetcher_ = prefetch({.batch_size = batch_size_, .end = end_.records, .name = name()},
                         std::move(sampler));
}

void SampledLayer::stop() {
  wait_seconds_ = take_wait_seconds();
  prefetcher_.reset();
  taken_ = 0;
  tell_skipped();
}

double SampledLayer::take_wait_seconds() {
  const double before = std::exchange(wait_seconds_, 0.0);
  return prefetcher_ ? before + prefetcher_->take_wait_seconds() : before;
}

std::string SampledLayer::record_key(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(given_.size())) return {};
  return key_of(given_[static_cast<size_t>(index)], index);
}

bool SampledLayer::look_back(int batches) {
  if (batches == 0) return true;
  if (batches < 0 || batches > std::ssize(before_)) return false;
  given_ = before_[static_cast<size_t>(batches - 1)];
  return true;
}

std::string SampledLayer::raw_key(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(given_.size())) return {};
  return raw_key_of(given_[static_cast<size_t>(index)], index);
}

int64_t SampledLayer::record_number(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(given_.size())) return -1;
  return given_[static_cast<size_t>(index)].record;
}

bool SampledLayer::is_replaced(int64_t index) const {
  return index >= 0 && index < static_cast<int64_t>(given_.size()) &&
         given_[static_cast<size_t>(index)].replaced;
}

void SampledLayer::count_skipped(const Batch& batch) {
  const uint64_t epoch = cursor().epoch;
  if (epoch != skips_.epoch) tell_skipped();
  skips_.epoch = epoch;
  if (skips_.count == 0 && !batch.skipped.empty()) skips_.first = batch.skipped.front();
  skips_.count += static_cast<int64_t>(batch.skipped.size());
}

void SampledLayer::tell_skipped() {
  if (skips_.count > 0)
    context().log(Severity::warning,
                  text("layer '", name(), "': in epoch ", skips_.epoch, ", ", skips_.count,
                       " records could not be used, and others took their places; the first: ",
                       skips_.first));
  skips_ = {};
}

const Batch& SampledLayer::next_batch() {
  if (!prefetcher_) start();
  return prefetcher_->wait();
}

void SampledLayer::reshape_to(int64_t samples, const Shape& sample, Blob& top) {
  const std::span<const int64_t> now = top.shape().dims();
  if (!now.empty() && now[0] == samples && std::ranges::equal(now.subspan(1), sample.dims()))
    return;
  std::vector<int64_t> dims = sample.dims();
  dims.insert(dims.begin(), samples);
  top.reshape(Shape(std::move(dims)));
}

void SampledLayer::fetch(Blobs top) { take_shape_of(next_batch(), top); }

void SampledLayer::forward_cpu(Blobs, Blobs top) {
  const Batch& batch = next_batch();
  if (top[0]->shape().dim_or_1(0) != static_cast<int64_t>(batch.samples.size()))
    throw Error("the next batch has ", batch.samples.size(), " records, and the top is ",
                top[0]->shape().str(), "; call Layer::fetch() before the pass, as a net does");
  give_batch(batch, top);
  if (!before_.empty()) {
    std::rotate(before_.begin(), before_.end() - 1, before_.end());
    before_.front().swap(given_);
  }
  given_ = batch.samples;
  const int64_t taken = batch.taken;
  if (!batch.skipped.empty() || skips_.count > 0) count_skipped(batch);
  prefetcher_->release();
  // A cursor counts the samples of all shards.
  taken_ += static_cast<uint64_t>(taken * run().world_size);
}

}  // namespace crema
