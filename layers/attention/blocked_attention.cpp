#include "layers/attention/blocked_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/cpu/random_words.hpp"
#include "core/transpose.hpp"
#include "layer_support/pieces.hpp"
#include "layers/attention/attention_kernels.hpp"

namespace crema {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

/// Scratch memory of a thread. Panels of queries are panels of a block's queries, (depth, width)
/// each; panels of columns are (queries or keys, width) each.
template <class T>
struct BlockedAttention<T>::Room {
  T *q_across, *scores, *columns;   // scaled q in panels of queries; of k or v, panels of columns
  T *sums, *most, *total, *factor;  // forward: (queries, value_depth) and a value a query
  T *dy_across, *q_panels, *dy_panels, *d_scores, *mean, *log_sum, *dq;  // backward
  T *dk, *dv;       // of all keys, or of those of a block
  uint16_t* words;  // (keys, kQueries)
};

/// Queries [i, i + m) and keys [j, j + n) of a head of a sample.
template <class T>
struct BlockedAttention<T>::Block {
  int64_t sample, head;
  int64_t i, m;
  int64_t j = 0, n = 0;

  /// The first n of the keys that count for some query of a panel.
  int64_t keys_for(int64_t panel, int64_t width, bool causal) const {
    return causal ? std::clamp<int64_t>(i + (panel + 1) * width - j, 0, n) : n;
  }
};

template <class T>
BlockedAttention<T>::BlockedAttention(const AttentionSizes& sizes, bool trains, bool drops,
                                      int threads)
    : sizes_(sizes), most_threads_(threads), width_(attention_kernels<T>().width), trains_(trains) {
  const int64_t heads = sizes.batch * sizes.heads;
  threads_ = static_cast<int>(std::clamp<int64_t>(
      std::max(heads * query_blocks(), trains ? heads * key_blocks() : 0), 1, threads));
  // By heads a block's weights are made once, otherwise twice: 5 products a block, or 7.
  const int64_t rounds = (heads + threads_ - 1) / threads_;
  by_head_ = 5 * rounds * threads_ <= 7 * heads;
  queries_ = std::min(kQueries, round_up(std::max<int64_t>(sizes.queries, 1), width_));
  keys_ = std::clamp<int64_t>(sizes.keys, 1, kKeys);
  panel_depth_ = round_up(sizes.depth, width_);
  panel_value_depth_ = round_up(sizes.value_depth, width_);
  const int64_t all_keys = by_head_ ? std::max<int64_t>(sizes.keys, 1) : keys_;
  const int64_t both = panel_depth_ + panel_value_depth_;
  room_ = queries_ * (panel_depth_ + panel_value_depth_ + keys_ + 3) +
          keys_ * std::max(panel_depth_, panel_value_depth_);
  if (trains)
    room_ += queries_ * (both + panel_value_depth_ + panel_depth_ + keys_ + 2) + all_keys * both;
  values_ = Tensor(Shape{threads_, room_}, dtype_of<T>());
  if (drops) words_ = Tensor(Shape{threads_, keys_ * kQueries / 2}, DType::f32);
}

template <class T>
typename BlockedAttention<T>::Room BlockedAttention<T>::room(T* at, uint16_t* words) const {
  const auto take = [&](int64_t count) {
    T* const taken = at;
    at += count;
    return taken;
  };
  Room room{};
  room.q_across = take(queries_ * panel_depth_);
  room.scores = take(queries_ * keys_);
  room.columns = take(keys_ * std::max(panel_depth_, panel_value_depth_));
  room.sums = take(queries_ * panel_value_depth_);
  room.most = take(queries_);
  room.total = take(queries_);
  room.factor = take(queries_);
  if (trains_) {
    room.dy_across = take(queries_ * panel_value_depth_);
    room.q_panels = take(queries_ * panel_depth_);
    room.dy_panels = take(queries_ * panel_value_depth_);
    room.d_scores = take(queries_ * keys_);
    room.mean = take(queries_);
    room.log_sum = take(queries_);
    room.dq = take(queries_ * panel_depth_);
    const int64_t all_keys = by_head_ ? std::max<int64_t>(sizes_.keys, 1) : keys_;
    room.dk = take(all_keys * panel_depth_);
    room.dv = take(all_keys * panel_value_depth_);
  }
  room.words = words;
  return room;
}

template <class T>
template <class Body>
void BlockedAttention<T>::each_range(int64_t items, const Body& body) {
  // Taken here: tensors note who writes them, and are not made for several threads at once.
  T* const values = values_.template overwrite<T>();
  uint16_t* const words = words_.count() > 0
                              ? reinterpret_cast<uint16_t*>(words_.template overwrite<float>())
                              : nullptr;
  for_pieces(items, threads_, [&](int64_t piece, int64_t begin, int64_t end) {
    Room own =
        room(values + piece * room_, words != nullptr ? words + piece * keys_ * kQueries : nullptr);
    body(begin, end, own);
  });
}

template <class T>
template <class Body>
void BlockedAttention<T>::each(int64_t items, const Body& body) {
  each_range(items, [&](int64_t begin, int64_t end, Room& room) {
    for (int64_t item = begin; item < end; ++item) body(item, room);
  });
}

template <class T>
int64_t BlockedAttention<T>::log_sum_at(const Block& at) const {
  return (at.sample * sizes_.heads + at.head) * sizes_.queries + at.i;
}

/// Behind the last key that counts.
template <class T>
int64_t BlockedAttention<T>::last_key(const AttentionInputs<T>& in, int64_t sample) const {
  int64_t last = sizes_.keys;
  if (in.padded == nullptr) return last;
  while (last > 0 && in.padded[sample * sizes_.keys + last - 1] != 0) --last;
  return last;
}

namespace {

/// Rows of x (rows, n) as columns of panels, times `factor`.
template <class T>
void to_panels_across(int64_t rows, int64_t n, const T* x, int64_t x_row, T factor, T* panels,
                      int64_t width) {
  for (int64_t r = 0; r < rows; r += width, panels += n * width) {
    const int64_t present = std::min(width, rows - r);
    if (present < width) std::fill_n(panels, n * width, T{0});
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    transpose(reinterpret_cast<const Bits*>(x + r * x_row), x_row, reinterpret_cast<Bits*>(panels),
              width, present, n);
    if (factor != T{1}) {
      for (int64_t i = 0; i < n * width; ++i) panels[i] *= factor;
    }
  }
}

}  // namespace

template <class T>
void BlockedAttention<T>::load_queries(const AttentionInputs<T>& in, const Block& at,
                                       Room& room) const {
  const T* const q = in.q + (at.sample * sizes_.queries + at.i) * in.q_row + at.head * sizes_.depth;
  to_panels_across(at.m, sizes_.depth, q, in.q_row, in.scale, room.q_across, width_);
}

template <class T>
void BlockedAttention<T>::load_gradients(const AttentionInputs<T>& in,
                                         const AttentionGradients<T>& gradients, const Block& at,
                                         Room& room) const {
  load_queries(in, at, room);
  const AttentionKernels<T>& kernels = attention_kernels<T>();
  const int64_t depth = sizes_.depth, q_row = in.q_row;
  const int64_t values = sizes_.value_depth, y_row = sizes_.heads * values;
  const int64_t present = round_up(at.m, width_);
  const T* const q = in.q + (at.sample * sizes_.queries + at.i) * q_row + at.head * depth;
  const int64_t y_at = (at.sample * sizes_.queries + at.i) * y_row + at.head * values;
  const T *const y = gradients.y + y_at, *const dy = gradients.dy + y_at;
  if (present > at.m) {
    std::fill_n(room.q_panels, queries_ * panel_depth_, T{0});
    std::fill_n(room.dy_panels, queries_ * panel_value_depth_, T{0});
  }
  kernels.to_panels(at.m, depth, q, q_row, in.scale, room.q_panels, queries_ * width_);
  kernels.to_panels(at.m, values, dy, y_row, T{1}, room.dy_panels, queries_ * width_);
  to_panels_across(at.m, values, dy, y_row, T{1}, room.dy_across, width_);
  std::copy_n(gradients.log_sums + log_sum_at(at), at.m, room.log_sum);
  // The mean of the gradients of a query's weights is that of dy times y.
  kernels.dot_rows(at.m, values, y, dy, y_row, room.mean);
  std::fill(room.log_sum + at.m, room.log_sum + present, std::numeric_limits<T>::infinity());
  std::fill(room.mean + at.m, room.mean + present, T{0});
}

template <class T>
void BlockedAttention<T>::draw(const AttentionInputs<T>& in, const Block& at, Room& room) const {
  const int64_t blocks = (sizes_.queries + 7) / 8;
  const int64_t first = ((at.sample * sizes_.heads + at.head) * sizes_.keys + at.j) * blocks;
  for (int64_t k = 0; k < at.n; ++k) {
    draw_words(in.dropout.key0, in.dropout.key1, first + k * blocks + at.i / 8, kQueries / 8,
               room.words + k * kQueries);
  }
}

template <class T>
void BlockedAttention<T>::drop(const AttentionDropout& dropout, const Room& room, int64_t panel,
                               int64_t keys, T* weights) const {
  for (int64_t k = 0; k < keys; ++k, weights += width_) {
    const uint16_t* const words = room.words + k * kQueries + panel * width_;
    if constexpr (std::is_same_v<T, float>) {
      apply_words(words, dropout.threshold, dropout.scale, 1, width_, weights, weights, width_);
    } else {
      for (int64_t i = 0; i < width_; ++i) {
        weights[i] = words[i] < dropout.threshold ? T{0} : weights[i] * T{dropout.scale};
      }
    }
  }
}

template <class T>
void BlockedAttention<T>::forward_block(const AttentionInputs<T>& in, const Block& at, Room& room,
                                        T* y, T* log_sums) const {
  const AttentionKernels<T>& kernels = attention_kernels<T>();
  const int64_t depth = sizes_.depth, k_row = in.k_row;
  const int64_t values = sizes_.value_depth, v_row = in.v_row, y_row = sizes_.heads * values;
  const int64_t last = last_key(in, at.sample), panels = (at.m + width_ - 1) / width_;
  std::fill_n(room.most, panels * width_, -std::numeric_limits<T>::infinity());
  std::fill_n(room.total, panels * width_, T{0});
  load_queries(in, at, room);
  Block block = at;
  for (; block.j < last && (!in.causal || block.j < at.i + at.m); block.j += keys_) {
    block.n = std::min(keys_, last - block.j);
    const int64_t first_key = at.sample * sizes_.keys + block.j;
    const T* const k = in.k + first_key * k_row + at.head * depth;
    kernels.to_panels(block.n, values, in.v + first_key * v_row + at.head * values, v_row, T{1},
                      room.columns, keys_ * width_);
    if (in.dropout.threshold > 0) draw(in, block, room);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t keys = block.keys_for(p, width_, in.causal);
      if (keys == 0) continue;
      // Of the last panel, what holds queries.
      const int64_t queries = std::min(width_, at.m - p * width_);
      const bool narrow = 2 * queries <= width_;
      T* const scores = room.scores + p * keys_ * width_;
      kernels.product({keys, 1, depth, k, k_row, 0, 1, room.q_across + p * depth * width_, scores,
                       width_, false, narrow});
      const bool all = !in.causal || block.j + keys <= at.i + p * width_ + 1;
      kernels.soften({keys, scores, in.padded == nullptr ? nullptr : in.padded + first_key, !all,
                      at.i + p * width_, block.j, narrow},
                     room.most + p * width_, room.total + p * width_, room.factor + p * width_);
      if (in.dropout.threshold > 0) drop(in.dropout, room, p, keys, scores);
      T* const sums = room.sums + p * width_ * panel_value_depth_;
      if (block.j > 0) {
        kernels.scale_rows(queries, panel_value_depth_, room.factor + p * width_, sums,
                           panel_value_depth_, sums, panel_value_depth_);
      }
      for (int64_t c = 0; c * width_ < values; ++c) {
        kernels.product({queries, 1, keys, scores, 1, 0, width_, room.columns + c * keys_ * width_,
                         sums + c * width_, panel_value_depth_, block.j > 0});
      }
    }
  }
  y += (at.sample * sizes_.queries + at.i) * y_row + at.head * values;
  log_sums += log_sum_at(at);
  for (int64_t r = 0; r < at.m; ++r) {
    const T total = room.total[r];
    // Without any key the weights are 0: exp(score - infinity).
    log_sums[r] =
        total == T{0} ? std::numeric_limits<T>::infinity() : room.most[r] + std::log(total);
    room.factor[r] = T{1} / total;
    if (total == T{0}) {
      room.factor[r] = T{0};
      std::fill_n(room.sums + r * panel_value_depth_, panel_value_depth_, T{0});
    }
  }
  kernels.scale_rows(at.m, values, room.factor, room.sums, panel_value_depth_, y, y_row);
}

template <class T>
void BlockedAttention<T>::backward_block(const AttentionInputs<T>& in, const Block& at, Room& room,
                                         bool wants_dq, T* dk, T* dv) const {
  const AttentionKernels<T>& kernels = attention_kernels<T>();
  const int64_t depth = sizes_.depth, k_row = in.k_row;
  const int64_t values = sizes_.value_depth, v_row = in.v_row;
  const int64_t panels = (at.m + width_ - 1) / width_;
  const int64_t first_key = at.sample * sizes_.keys + at.j;
  const T* const k = in.k + first_key * k_row + at.head * depth;
  const T* const v = in.v + first_key * v_row + at.head * values;
  const bool drops = in.dropout.threshold > 0;
  if (drops) draw(in, at, room);
  if (wants_dq) kernels.to_panels(at.n, depth, k, k_row, T{1}, room.columns, keys_ * width_);
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t keys = at.keys_for(p, width_, in.causal);
    T* const weights = room.scores + p * keys_ * width_;
    T* const gradients = room.d_scores + p * keys_ * width_;
    std::fill(weights + keys * width_, weights + at.n * width_, T{0});
    std::fill(gradients + keys * width_, gradients + at.n * width_, T{0});
    if (keys == 0) continue;
    kernels.product({keys, 1, depth, k, k_row, 0, 1, room.q_across + p * depth * width_, weights,
                     width_, false});
    const bool all = !in.causal || at.j + keys <= at.i + p * width_ + 1;
    kernels.weights({keys, weights, in.padded == nullptr ? nullptr : in.padded + first_key, !all,
                     at.i + p * width_, at.j},
                    room.log_sum + p * width_);
    kernels.product({keys, 1, values, v, v_row, 0, 1, room.dy_across + p * values * width_,
                     gradients, width_, false});
    if (drops) drop(in.dropout, room, p, keys, gradients);
    kernels.score_gradients(keys, weights, room.mean + p * width_, gradients);
    if (drops) drop(in.dropout, room, p, keys, weights);
    for (int64_t c = 0; wants_dq && c * width_ < depth; ++c) {
      kernels.product({width_, 1, keys, gradients, 1, 0, width_, room.columns + c * keys_ * width_,
                       room.dq + p * width_ * panel_depth_ + c * width_, panel_depth_, true});
    }
  }
  const int64_t outer = keys_ * width_;
  for (int64_t c = 0; dv != nullptr && c * width_ < values; ++c) {
    kernels.product({at.n, panels, width_, room.scores, width_, outer, 1,
                     room.dy_panels + c * queries_ * width_, dv + c * width_, panel_value_depth_,
                     true});
  }
  for (int64_t c = 0; dk != nullptr && c * width_ < depth; ++c) {
    kernels.product({at.n, panels, width_, room.d_scores, width_, outer, 1,
                     room.q_panels + c * queries_ * width_, dk + c * width_, panel_depth_, true});
  }
}

template <class T>
void BlockedAttention<T>::write_dq(const AttentionInputs<T>& in,
                                   const AttentionGradients<T>& gradients, const Block& at,
                                   Room& room) const {
  std::fill_n(room.factor, at.m, in.scale);
  T* const to =
      gradients.dq + (at.sample * sizes_.queries + at.i) * in.q_row + at.head * sizes_.depth;
  attention_kernels<T>().scale_rows(at.m, sizes_.depth, room.factor, room.dq, panel_depth_, to,
                                    in.q_row);
}

/// `from`: rows of whole panels.
template <class T>
void BlockedAttention<T>::write_keys(const Block& at, int64_t count, const T* from, int64_t depth,
                                     T* to, int64_t row) const {
  const int64_t from_row = round_up(depth, width_);
  to += (at.sample * sizes_.keys + at.j) * row + at.head * depth;
  for (int64_t r = 0; r < count; ++r) std::copy_n(from + r * from_row, depth, to + r * row);
}

template <class T>
void BlockedAttention<T>::forward(const AttentionInputs<T>& in, T* y, T* log_sums) {
  if (!in.causal && in.dropout.threshold == 0) {
    // Threads share panels out, of which blocks have some each.
    return each_range(
        sizes_.batch * sizes_.heads * panels(), [&](int64_t begin, int64_t end, Room& room) {
          while (begin < end) {
            const int64_t head = begin / panels(), first = begin % panels();
            const int64_t count = std::min({panels() - first, end - begin, queries_ / width_});
            const int64_t i = first * width_;
            forward_block(in,
                          {head / sizes_.heads, head % sizes_.heads, i,
                           std::min(count * width_, sizes_.queries - i)},
                          room, y, log_sums);
            begin += count;
          }
        });
  }
  const int64_t blocks = query_blocks();
  each(sizes_.batch * sizes_.heads * blocks, [&](int64_t item, Room& room) {
    // With `causal` later blocks have more keys: first and last ones by turns.
    const int64_t turn = item % blocks, head = item / blocks;
    const int64_t i = (turn % 2 == 0 ? turn / 2 : blocks - 1 - turn / 2) * kQueries;
    forward_block(
        in, {head / sizes_.heads, head % sizes_.heads, i, std::min(kQueries, sizes_.queries - i)},
        room, y, log_sums);
  });
}

template <class T>
void BlockedAttention<T>::backward(const AttentionInputs<T>& in,
                                   const AttentionGradients<T>& gradients) {
  const int64_t heads = sizes_.batch * sizes_.heads;
  const bool wants_dq = gradients.dq != nullptr;
  const bool wants_keys = gradients.dk != nullptr || gradients.dv != nullptr;
  const auto queries = [&](int64_t head, int64_t i) {
    return Block{head / sizes_.heads, head % sizes_.heads, i,
                 std::min(kQueries, sizes_.queries - i)};
  };
  // Calls body(block) for the blocks of the keys that count for some query of `at`.
  const auto each_keys = [&](Block at, const auto& body) {
    const int64_t last = last_key(in, at.sample);
    for (; at.j < last && (!in.causal || at.j < at.i + at.m); at.j += keys_) {
      at.n = std::min(keys_, last - at.j);
      body(at);
    }
  };
  if (by_head_) {
    return each(heads, [&](int64_t head, Room& room) {
      T* const dk = gradients.dk != nullptr ? room.dk : nullptr;
      T* const dv = gradients.dv != nullptr ? room.dv : nullptr;
      if (dk != nullptr) std::fill_n(dk, sizes_.keys * panel_depth_, T{0});
      if (dv != nullptr) std::fill_n(dv, sizes_.keys * panel_value_depth_, T{0});
      for (int64_t i = 0; i < sizes_.queries; i += kQueries) {
        const Block at = queries(head, i);
        load_gradients(in, gradients, at, room);
        std::fill_n(room.dq, queries_ * panel_depth_, T{0});
        each_keys(at, [&](const Block& block) {
          backward_block(in, block, room, wants_dq,
                         dk == nullptr ? dk : dk + block.j * panel_depth_,
                         dv == nullptr ? dv : dv + block.j * panel_value_depth_);
        });
        if (wants_dq) write_dq(in, gradients, at, room);
      }
      const Block all = queries(head, 0);
      if (dk != nullptr) write_keys(all, sizes_.keys, dk, sizes_.depth, gradients.dk, in.k_row);
      if (dv != nullptr)
        write_keys(all, sizes_.keys, dv, sizes_.value_depth, gradients.dv, in.v_row);
    });
  }
  // The same sums in the same order, by blocks of queries and then by blocks of keys.
  const int64_t blocks = query_blocks();
  if (wants_dq) {
    each(heads * blocks, [&](int64_t item, Room& room) {
      const Block at = queries(item / blocks, item % blocks * kQueries);
      load_gradients(in, gradients, at, room);
      std::fill_n(room.dq, queries_ * panel_depth_, T{0});
      each_keys(
          at, [&](const Block& block) { backward_block(in, block, room, true, nullptr, nullptr); });
      write_dq(in, gradients, at, room);
    });
  }
  if (!wants_keys) return;
  const int64_t of_keys = key_blocks();
  each(heads * of_keys, [&](int64_t item, Room& room) {
    const int64_t head = item / of_keys, j = item % of_keys * keys_;
    std::fill_n(room.dk, keys_ * panel_depth_, T{0});
    std::fill_n(room.dv, keys_ * panel_value_depth_, T{0});
    Block at = queries(head, 0);
    const int64_t last = last_key(in, at.sample);
    const int64_t first = in.causal ? j / kQueries * kQueries : 0;
    for (int64_t i = first; j < last && i < sizes_.queries; i += kQueries) {
      at = queries(head, i);
      at.j = j;
      at.n = std::min(keys_, last - j);
      load_gradients(in, gradients, at, room);
      backward_block(in, at, room, false, gradients.dk == nullptr ? nullptr : room.dk,
                     gradients.dv == nullptr ? nullptr : room.dv);
    }
    at.j = j;
    const int64_t count = std::min(keys_, sizes_.keys - j);
    if (gradients.dk != nullptr)
      write_keys(at, count, room.dk, sizes_.depth, gradients.dk, in.k_row);
    if (gradients.dv != nullptr)
      write_keys(at, count, room.dv, sizes_.value_depth, gradients.dv, in.v_row);
  });
}

template class BlockedAttention<float>;
template class BlockedAttention<double>;

}  // namespace crema
