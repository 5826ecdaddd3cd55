// GradientExchange: the mean of the gradients over the processes, while backward goes on.
//
// Gradients go in buckets of 25 MB, the first one of 1 MB, in the order in which backward completes
// them: the first is under way soon, and few messages are small. A bucket starts when its last
// gradient is complete, and behind the buckets before it: all processes start the same in the same
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "crema/net.hpp"
#include "parallel/communicator.hpp"

namespace crema {

class GradientExchange {
 public:
  /// `as_bf16`: half the bytes. All three outlive this object.
  GradientExchange(Net& net, Communicator& processes, bool as_bf16);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// In front of the last backward pass of an iteration: takes the hook of Net::on_gradient.
  void begin();
  /// Behind that pass: starts the buckets that are not under way. The first iteration finds the
  /// order of the gradients, and its buckets all start here.
  void end_backward();
  /// Waits for one bucket after the other. body(segments) for each, the gradients of which are
  /// means over the processes then; without it, for all of them.
  void finish(const std::function<void(const std::vector<size_t>&)>& body = {});
  /// The segments that are in no bucket, since backward does not reach them.
  std::vector<size_t> others() const;

 private:
  /// A range of the arena, in elements.
  struct Range {
    int64_t offset, count;
  };
  struct Bucket {
    std::vector<size_t> segments;
    std::vector<Range> ranges;  // of the segments, which may lie apart
    size_t missing = 0;         // segments that are not complete
    std::vector<Communicator::Ticket> under_way = {};
  };

  void completed(size_t segment);
  void make_buckets();
  void add_ranges(Bucket& bucket) const;
  void start(Bucket& bucket);

  Net& net_;
  Communicator& processes_;
  bool as_bf16_;
  std::vector<size_t> order_;  // of segments, as backward completes them
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // of each segment
  size_t next_ = 0;                // the bucket that starts next
};

}  // namespace crema
