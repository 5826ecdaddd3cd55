// Attention on the CPU in blocks of queries and keys: no more than kQueries x kKeys weights of a
// head exist at a time on a thread (Rabe and Staats, "Self-attention does not need O(n^2) memory",
// 2021; Dao et al., "FlashAttention", NeurIPS 2022). Backward computes the weights again, from the
// logarithms of the sums that forward kept.
#pragma once

#include <cstdint>

#include "crema/tensor.hpp"

namespace crema {

struct AttentionSizes {
  int64_t batch = 0, heads = 1;
  int64_t queries = 0, keys = 0;       // T of q, and of k and v
  int64_t depth = 0, value_depth = 0;  // of a head

  bool operator==(const AttentionSizes&) const = default;
};

/// Drops weights whose word of 16 random bits is below the threshold. The word of head h of sample
/// b for query i and key j is number i % 8 of Philox block ((b H + h) keys + j) * ceil(queries / 8)
/// + i / 8, in the order of backend/cpu/random_words.hpp.
struct AttentionDropout {
  uint32_t key0 = 0, key1 = 0;
  uint32_t threshold = 0;
  float scale = 1;
};

template <class T>
struct AttentionInputs {
  const T *q, *k, *v;           // (batch, queries or keys, heads * depth or value_depth)
  int64_t q_row, k_row, v_row;  // elements from one position to the next
  T scale;                      // of the products
  bool causal;                  // key j counts for queries from j on
  const uint8_t* padded;        // (batch, keys), not 0 for keys that do not count; null: all do
  AttentionDropout dropout;
};

template <class T>
struct AttentionGradients {
  const T *y, *dy;    // (batch, queries, heads * value_depth)
  const T* log_sums;  // of forward
  T *dq, *dk, *dv;    // null: not wanted; rows lie apart as those of q, k and v
};

/// T: float or double. Results do not depend on the number of threads.
template <class T>
class BlockedAttention {
 public:
  static constexpr int64_t kQueries = 128, kKeys = 128;

  BlockedAttention() = default;
  /// Runs on at most `threads` threads.
  BlockedAttention(const AttentionSizes& sizes, bool trains, bool drops, int threads);

  /// log_sums (batch, heads, queries): of the exponentials of the scores; infinite without any key.
  void forward(const AttentionInputs<T>& in, T* y, T* log_sums);
  void backward(const AttentionInputs<T>& in, const AttentionGradients<T>& gradients);

  const AttentionSizes& sizes() const { return sizes_; }
  int threads() const { return most_threads_; }
  /// Of scratch memory.
  size_t bytes() const { return values_.bytes() + words_.bytes(); }

 private:
  struct Room;
  struct Block;
  /// A body for each item on the threads, with the room of its thread.
  template <class Body>
  void each(int64_t items, const Body& body);
  /// The same for ranges of items.
  template <class Body>
  void each_range(int64_t items, const Body& body);
  /// The parts of a thread's memory.
  Room room(T* values, uint16_t* words) const;

  void load_queries(const AttentionInputs<T>& in, const Block& at, Room& room) const;
  void load_gradients(const AttentionInputs<T>& in, const AttentionGradients<T>& gradients,
                      const Block& at, Room& room) const;
  void forward_block(const AttentionInputs<T>& in, const Block& at, Room& room, T* y,
                     T* log_sums) const;
  /// The weights of a block and the gradients of its scores, and what follows from them: the
  /// gradients of the queries grow, and those of keys and values, unless they are null.
  void backward_block(const AttentionInputs<T>& in, const Block& at, Room& room, bool wants_dq,
                      T* dk, T* dv) const;
  void draw(const AttentionInputs<T>& in, const Block& at, Room& room) const;
  void drop(const AttentionDropout& dropout, const Room& room, int64_t panel, int64_t keys,
            T* weights) const;
  void write_dq(const AttentionInputs<T>& in, const AttentionGradients<T>& gradients,
                const Block& at, Room& room) const;
  void write_keys(const Block& at, int64_t count, const T* from, int64_t depth, T* to,
                  int64_t row) const;
  int64_t last_key(const AttentionInputs<T>& in, int64_t sample) const;
  int64_t panels() const { return (sizes_.queries + width_ - 1) / width_; }
  int64_t query_blocks() const { return (sizes_.queries + kQueries - 1) / kQueries; }
  int64_t key_blocks() const { return (sizes_.keys + kKeys - 1) / kKeys; }
  int64_t log_sum_at(const Block& at) const;

  AttentionSizes sizes_;
  int most_threads_ = 1, threads_ = 1;               // that may be used, and that have work
  bool by_head_ = true;                              // backward: a thread has whole heads
  int64_t width_ = 1;                                // of a panel
  int64_t queries_ = 0, keys_ = 0;                   // of a block, whole panels of queries
  int64_t panel_depth_ = 0, panel_value_depth_ = 0;  // up to whole panels
  int64_t room_ = 0;                                 // elements of a thread
  bool trains_ = false;
  Tensor values_{Shape{0}}, words_{Shape{0}};
};

}  // namespace crema
