#include "solver/gradient_exchange.hpp"

#include <algorithm>
#include <utility>

#include "core/dispatch.hpp"
#include "core/spans.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {
namespace {

constexpr size_t kFirstBytes = size_t{1} << 20, kBytes = size_t{25} << 20;

}  // namespace

GradientExchange::GradientExchange(Net& net, Communicator& processes, bool as_bf16)
    : net_(net), processes_(processes), as_bf16_(as_bf16) {}

GradientExchange::~GradientExchange() { net_.on_gradient({}); }

void GradientExchange::begin() {
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.segments.size();
  if (buckets_.empty()) order_.clear();
  net_.on_gradient([this](size_t segment) { completed(segment); });
}

void GradientExchange::completed(size_t segment) {
  if (buckets_.empty()) return order_.push_back(segment);
  Bucket& bucket = buckets_[bucket_of_[segment]];
  --bucket.missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) start(buckets_[next_++]);
}

void GradientExchange::end_backward() {
  net_.on_gradient({});
  if (buckets_.empty()) make_buckets();
  while (next_ < buckets_.size()) start(buckets_[next_++]);
}

void GradientExchange::make_buckets() {
  const auto& segments = net_.params().segments();
  bucket_of_.assign(segments.size(), 0);
  size_t bytes = 0, most = kFirstBytes;
  for (const size_t segment : order_) {
    if (buckets_.empty() || bytes >= most) {
      if (!buckets_.empty()) most = kBytes;
      buckets_.emplace_back();
      bytes = 0;
    }
    bucket_of_[segment] = buckets_.size() - 1;
    buckets_.back().segments.push_back(segment);
    bytes += static_cast<size_t>(segments[segment].count) * size_of(net_.params().dtype());
  }
  for (Bucket& bucket : buckets_) add_ranges(bucket);
}

void GradientExchange::add_ranges(Bucket& bucket) const {
  const auto& segments = net_.params().segments();
  std::vector<size_t> in_place = bucket.segments;
  std::ranges::sort(in_place);
  for (size_t i = 0; i < in_place.size(); ++i) {
    const auto& segment = segments[in_place[i]];
    // The padding between two segments is zero.
    const bool follows = i > 0 && in_place[i] == in_place[i - 1] + 1;
    if (!follows) bucket.ranges.push_back({segment.offset, 0});
    Range& range = bucket.ranges.back();
    range.count = segment.offset + segment.count - range.offset;
  }
}

void GradientExchange::start(Bucket& bucket) {
  const auto& segments = net_.params().segments();
  for (const size_t segment : bucket.segments) segments[segment].parameter->gradient();
  Tensor& gradients = net_.params().diff();
  dispatch_float(gradients.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const values = gradients.change<T>();
    for (const Range& range : bucket.ranges) {
      bucket.under_way.push_back(
          processes_.start_all_reduce({.values = values + range.offset,
                                       .count = range.count,
                                       .dtype = gradients.dtype(),
                                       .factor = 1.0 / processes_.size(),
                                       .as_bf16 = as_bf16_ && gradients.dtype() == DType::f32}));
    }
  });
}

void GradientExchange::finish(const std::function<void(const std::vector<size_t>&)>& body) {
  for (Bucket& bucket : buckets_) {
    {
      const Span span(SpanKind::wait, [] { return "gradients of all processes"; });
      for (const Communicator::Ticket ticket : std::exchange(bucket.under_way, {}))
        processes_.wait(ticket);
    }
    if (body) body(bucket.segments);
  }
}

std::vector<size_t> GradientExchange::others() const {
  std::vector<bool> has_bucket(net_.params().segments().size(), false);
  for (const Bucket& bucket : buckets_) {
    for (const size_t segment : bucket.segments) has_bucket[segment] = true;
  }
  std::vector<size_t> others;
  for (size_t segment = 0; segment < has_bucket.size(); ++segment) {
    if (!has_bucket[segment]) others.push_back(segment);
  }
  return others;
}

}  // namespace crema
