// Attention: scaled dot product attention of several heads. See README.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/host_part.hpp"
#include "core/philox.hpp"
#include "crema/random.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/attention/blocked_attention.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// 1 for keys that do not count, from a mask (batch, keys) or from lengths (batch).
template <class T>
struct FindPadding {
  int64_t keys;
  const T *mask, *lengths;
  uint8_t* padded;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    padded[i] = mask != nullptr
                    ? mask[i] != T{0}
                    : static_cast<double>(lengths[i / keys]) <= static_cast<double>(i % keys);
  }
};

// Bodies of devices: a thread a query or a key, and no memory for the weights.

/// A query and the keys of its head, or a key and the queries.
template <class T>
struct Heads {
  AttentionSizes sizes;
  AttentionInputs<T> in;

  CREMA_FUNCTOR int64_t query(int64_t sample, int64_t head, int64_t i) const {
    return ((sample * sizes.queries + i) * sizes.heads + head) * sizes.depth;
  }
  CREMA_FUNCTOR int64_t top(int64_t sample, int64_t head, int64_t i) const {
    return ((sample * sizes.queries + i) * sizes.heads + head) * sizes.value_depth;
  }
  CREMA_FUNCTOR int64_t key(int64_t sample, int64_t head, int64_t j) const {
    return ((sample * sizes.keys + j) * sizes.heads + head) * sizes.depth;
  }
  CREMA_FUNCTOR int64_t value(int64_t sample, int64_t head, int64_t j) const {
    return ((sample * sizes.keys + j) * sizes.heads + head) * sizes.value_depth;
  }
  CREMA_FUNCTOR bool counts(int64_t sample, int64_t i, int64_t j) const {
    return (!in.causal || j <= i) &&
           (in.padded == nullptr || in.padded[sample * sizes.keys + j] == 0);
  }
  static CREMA_FUNCTOR T dot(int64_t n, const T* a, const T* b) {
    T sum{0};
    for (int64_t k = 0; k < n; ++k) sum += a[k] * b[k];
    return sum;
  }
  CREMA_FUNCTOR T score(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    return in.scale * dot(sizes.depth, in.q + query(sample, head, i), in.k + key(sample, head, j));
  }
  /// The factor of dropout on a weight.
  CREMA_FUNCTOR T kept(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    if (in.dropout.threshold == 0) return T{1};
    const int64_t blocks = (sizes.queries + 7) / 8;
    const auto block =
        static_cast<uint64_t>(((sample * sizes.heads + head) * sizes.keys + j) * blocks + i / 8);
    const PhiloxBlock drawn =
        philox_block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                     in.dropout.key0, in.dropout.key1);
    const uint32_t pairs[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    const uint32_t word = pairs[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
    return word < in.dropout.threshold ? T{0} : static_cast<T>(in.dropout.scale);
  }
};

template <class T>
struct ForwardBody {
  Heads<T> heads;
  T *y, *log_sums;
  CREMA_FUNCTOR void operator()(int64_t item) const {
    const AttentionSizes& s = heads.sizes;
    const int64_t i = item % s.queries, head = item / s.queries % s.heads;
    const int64_t sample = item / s.queries / s.heads;
    T* const sums = y + heads.top(sample, head, i);
    for (int64_t k = 0; k < s.value_depth; ++k) sums[k] = T{0};
    T most = -std::numeric_limits<T>::infinity(), total{0};
    for (int64_t j = 0; j < s.keys; ++j) {
      if (!heads.counts(sample, i, j)) continue;
      const T score = heads.score(sample, head, i, j);
      if (score == -std::numeric_limits<T>::infinity()) continue;  // its weight is 0
      if (!(score <= most)) {
        const T factor = exp(most - score);
        for (int64_t k = 0; k < s.value_depth; ++k) sums[k] *= factor;
        total *= factor;
        most = score;
      }
      const T weight = exp(score - most);
      total += weight;
      const T share = weight * heads.kept(sample, head, i, j);
      const T* const value = heads.in.v + heads.value(sample, head, j);
      for (int64_t k = 0; k < s.value_depth; ++k) sums[k] += share * value[k];
    }
    const T factor = total == T{0} ? T{0} : T{1} / total;
    for (int64_t k = 0; k < s.value_depth; ++k) sums[k] *= factor;
    log_sums[item] = total == T{0} ? std::numeric_limits<T>::infinity() : most + log(total);
  }
};

/// mean[query] = the mean of the gradients of its weights.
template <class T>
struct MeanBody {
  Heads<T> heads;
  const T *y, *dy;
  T* mean;
  CREMA_FUNCTOR void operator()(int64_t item) const {
    const AttentionSizes& s = heads.sizes;
    const int64_t at =
        heads.top(item / s.queries / s.heads, item / s.queries % s.heads, item % s.queries);
    mean[item] = Heads<T>::dot(s.value_depth, y + at, dy + at);
  }
};

/// The weight of a key for a query, and the gradients of the score.
template <class T>
struct Gradients {
  Heads<T> heads;
  const T *dy, *log_sums, *mean;

  struct Pair {
    T weight, d_score;  // the weight after dropout
  };
  CREMA_FUNCTOR Pair of(int64_t sample, int64_t head, int64_t i, int64_t j) const {
    const AttentionSizes& s = heads.sizes;
    const int64_t item = (sample * s.heads + head) * s.queries + i;
    const T weight = exp(heads.score(sample, head, i, j) - log_sums[item]);
    const T kept = heads.kept(sample, head, i, j);
    const T d_weight = kept * Heads<T>::dot(s.value_depth, dy + heads.top(sample, head, i),
                                            heads.in.v + heads.value(sample, head, j));
    return {weight * kept, weight * (d_weight - mean[item]) * heads.in.scale};
  }
};

template <class T>
struct QueryGradients {
  Gradients<T> gradients;
  T* dq;
  CREMA_FUNCTOR void operator()(int64_t item) const {
    const Heads<T>& heads = gradients.heads;
    const AttentionSizes& s = heads.sizes;
    const int64_t i = item % s.queries, head = item / s.queries % s.heads;
    const int64_t sample = item / s.queries / s.heads;
    T* const to = dq + heads.query(sample, head, i);
    for (int64_t c = 0; c < s.depth; ++c) to[c] = T{0};
    for (int64_t j = 0; j < s.keys; ++j) {
      if (!heads.counts(sample, i, j)) continue;
      const T d = gradients.of(sample, head, i, j).d_score;
      const T* const key = heads.in.k + heads.key(sample, head, j);
      for (int64_t c = 0; c < s.depth; ++c) to[c] += d * key[c];
    }
  }
};

/// dk or dv may be null: not wanted.
template <class T>
struct KeyGradients {
  Gradients<T> gradients;
  T *dk, *dv;
  CREMA_FUNCTOR void operator()(int64_t item) const {
    const Heads<T>& heads = gradients.heads;
    const AttentionSizes& s = heads.sizes;
    const int64_t j = item % s.keys, head = item / s.keys % s.heads;
    const int64_t sample = item / s.keys / s.heads;
    T* const of_key = dk != nullptr ? dk + heads.key(sample, head, j) : nullptr;
    T* const of_value = dv != nullptr ? dv + heads.value(sample, head, j) : nullptr;
    for (int64_t c = 0; of_key != nullptr && c < s.depth; ++c) of_key[c] = T{0};
    for (int64_t c = 0; of_value != nullptr && c < s.value_depth; ++c) of_value[c] = T{0};
    for (int64_t i = 0; i < s.queries; ++i) {
      if (!heads.counts(sample, i, j)) continue;
      const auto pair = gradients.of(sample, head, i, j);
      const T* const query = heads.in.q + heads.query(sample, head, i);
      const T* const d_top = gradients.dy + heads.top(sample, head, i);
      for (int64_t c = 0; of_key != nullptr && c < s.depth; ++c)
        of_key[c] += pair.d_score * query[c];
      for (int64_t c = 0; of_value != nullptr && c < s.value_depth; ++c) {
        of_value[c] += pair.weight * d_top[c];
      }
    }
  }
};

class AttentionLayer : public TwoSidedLayer, public HasHostPart {
 public:
  std::string host_part() const override { return has_lengths_ ? "check of lengths" : ""; }
  bool host_reads(int b) const override { return b == 3; }
  bool host_writes() const override { return false; }
  explicit AttentionLayer(const LayerInit& init) : TwoSidedLayer(init), stream_(stream_id(name())) {
    const AttentionParameter& settings = init.param.attention_param();
    sizes_.heads = settings.num_heads();
    if (sizes_.heads == 0) throw Error("num_heads is 0; it takes at least one");
    if (settings.has_scale() && !std::isfinite(settings.scale()))
      throw Error("scale ", settings.scale(), " is no number");
    const double ratio = static_cast<double>(settings.dropout_ratio());
    if (!(ratio >= 0 && ratio < 1))
      throw Error("dropout_ratio ", settings.dropout_ratio(), " is not in [0, 1)");
    if (phase() == Phase::train) {
      const double words = std::min(std::round(ratio * 65536), 65535.0);
      dropout_.threshold = static_cast<uint32_t>(words);
      dropout_.scale = static_cast<float>(65536 / (65536 - words));
    }
  }

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 4}; }
  bool can_propagate(int bottom) const override { return bottom < 3; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &q = bottom[0]->shape(), &k = bottom[1]->shape(), &v = bottom[2]->shape();
    for (int i = 0; i < 3; ++i) {
      const Blob& blob = *bottom[static_cast<size_t>(i)];
      if (blob.shape().rank() != 3)
        throw Error("'", blob.name, "' (", blob.shape().str(),
                    ") is not of the form (N, T, D); Reshape or Permute makes it so");
      if (blob.shape()[2] == 0 || blob.shape()[2] % sizes_.heads != 0)
        throw Error("the ", blob.shape()[2], " values of '", blob.name, "' (", blob.shape().str(),
                    ") cannot be split among ", sizes_.heads,
                    " heads; num_heads has to divide them");
    }
    const auto differ = [&](size_t other, const char* what) {
      throw Error("'", bottom[0]->name, "' (", q.str(), ") and '", bottom[other]->name, "' (",
                  bottom[other]->shape().str(), ") differ in ", what);
    };
    if (k[0] != q[0]) differ(1, "the number of samples, their first axis");
    if (v[0] != q[0]) differ(2, "the number of samples, their first axis");
    if (k[2] != q[2]) differ(1, "the values of a position, their last axis");
    if (v[1] != k[1])
      throw Error("'", bottom[1]->name, "' (", k.str(), ") and '", bottom[2]->name, "' (", v.str(),
                  ") differ in positions, their second axis; each key has a value");
    sizes_.batch = q[0];
    sizes_.queries = q[1];
    sizes_.keys = k[1];
    sizes_.depth = q[2] / sizes_.heads;
    sizes_.value_depth = v[2] / sizes_.heads;
    has_lengths_ = bottom.size() == 4 && bottom[3]->shape().rank() == 1;
    if (bottom.size() == 4) {
      const Shape &mask = bottom[3]->shape(), pairs{q[0], k[1]}, each{q[0]};
      if (mask != pairs && mask != each)
        throw Error("'", bottom[3]->name, "' (", mask.str(), ") is neither a mask of the keys (",
                    pairs.str(), "), not 0 for padding, nor their numbers (", each.str(), ")");
      padded_ = Tensor(pairs, DType::u8);
    }
    top[0]->reshape(Shape{q[0], q[1], v[2]});
    const Shape each{q[0], sizes_.heads, q[1]};
    if (log_sums_.shape() != each || log_sums_.dtype() != dtype()) {
      log_sums_ = Tensor(each, dtype());
    }
  }

  Flops flops(Blobs, Blobs) const override {
    const double pairs = static_cast<double>(sizes_.batch * sizes_.heads * sizes_.queries) *
                         static_cast<double>(sizes_.keys) * (causal() ? 0.5 : 1);
    const auto depth = static_cast<double>(sizes_.depth + sizes_.value_depth);
    return {2 * pairs * depth, 5 * pairs * depth};
  }
  size_t kept_bytes() const override {
    return log_sums_.bytes() + mean_.bytes() + padded_.bytes() + blocks_f32_.bytes() +
           blocks_f64_.bytes();
  }
  void prepare_reference(Blobs, Blobs) override {
    dispatch_float(dtype(), [&]<class T>(T) { fit_blocks<T>(); });
  }
  void prepare_device(Blobs, Blobs) override {}
  bool capturable() const override { return dropout_.threshold == 0; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    Random random(run().seed, stream_ + run().pass, run().iteration);
    dropout_.key0 = random.next_u32();
    dropout_.key1 = random.next_u32();
    dispatch_float(dtype(), [&]<class T>(T) {
      if (bottom.size() == 4) find_padding<T>(device, *bottom[3]);
      const AttentionInputs<T> in = inputs<T>(device, bottom);
      T* y = device.overwrite<T>(top[0]->data);
      T* log_sums = device.overwrite<T>(log_sums_);
      if (device.on_host()) return fit_blocks<T>().forward(in, y, log_sums);
      for_each(device, log_sums_.count(), 1, ForwardBody<T>{{sizes_, in}, y, log_sums});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const AttentionInputs<T> in = inputs<T>(device, bottom);
      const auto diff = [&](size_t i) {
        return propagate[i] ? device.overwrite<T>(bottom[i]->diff) : nullptr;
      };
      const AttentionGradients<T> g{device.read<T>(top[0]->data),
                                    device.read<T>(top[0]->diff),
                                    device.read<T>(log_sums_),
                                    diff(0),
                                    diff(1),
                                    diff(2)};
      if (device.on_host()) return fit_blocks<T>().backward(in, g);
      if (mean_.shape() != log_sums_.shape()) mean_ = Tensor(log_sums_.shape(), dtype());
      T* const mean = device.overwrite<T>(mean_);
      const Heads<T> heads{sizes_, in};
      for_each(device, log_sums_.count(), 1, MeanBody<T>{heads, g.y, g.dy, mean});
      const Gradients<T> gradients{heads, g.dy, g.log_sums, mean};
      if (g.dq != nullptr)
        for_each(device, log_sums_.count(), 1, QueryGradients<T>{gradients, g.dq});
      if (g.dk != nullptr || g.dv != nullptr)
        for_each(device, sizes_.batch * sizes_.heads * sizes_.keys, 1,
                 KeyGradients<T>{gradients, g.dk, g.dv});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0, 1, 2}, true}; }

 private:
  bool causal() const { return param().attention_param().causal(); }

  template <class T>
  AttentionInputs<T> inputs(const ComputeDevice& device, Blobs bottom) const {
    const AttentionParameter& settings = param().attention_param();
    const double scale = settings.has_scale() ? static_cast<double>(settings.scale())
                                              : 1 / std::sqrt(static_cast<double>(sizes_.depth));
    return {device.read<T>(bottom[0]->data),
            device.read<T>(bottom[1]->data),
            device.read<T>(bottom[2]->data),
            static_cast<T>(scale),
            causal(),
            bottom.size() == 4 ? device.read<uint8_t>(padded_) : nullptr,
            dropout_};
  }

  template <class T>
  void find_padding(const ComputeDevice& device, const Blob& given) {
    const bool is_mask = given.shape().rank() == 2;
    if (!is_mask) check_lengths<T>(given);
    const T* values = device.read<T>(given.data);
    for_each(device, padded_.count(), kElementGrain,
             FindPadding<T>{sizes_.keys, is_mask ? values : nullptr, values,
                            device.overwrite<uint8_t>(padded_)});
  }
  template <class T>
  void check_lengths(const Blob& given) const {
    const T* lengths = given.data.read<T>();
    for (int64_t n = 0; n < sizes_.batch; ++n) {
      const auto length = static_cast<double>(lengths[n]);
      if (!(length >= 0 && length <= static_cast<double>(sizes_.keys) &&
            length == std::floor(length)))
        throw Error("sample ", n, " has ", length, " keys in '", given.name,
                    "'; it has to be a whole number from 0 to ", sizes_.keys);
    }
  }

  /// For the present sizes and threads.
  template <class T>
  BlockedAttention<T>& fit_blocks() {
    auto& blocks = [&]() -> BlockedAttention<T>& {
      if constexpr (std::is_same_v<T, float>) {
        return blocks_f32_;
      } else {
        return blocks_f64_;
      }
    }();
    const int threads = omp_get_max_threads();
    if (blocks.sizes() != sizes_ || blocks.threads() != threads) {
      blocks = BlockedAttention<T>(sizes_, trains(), dropout_.threshold > 0, threads);
    }
    return blocks;
  }

  uint64_t stream_;  // of the layer's name
  AttentionSizes sizes_;
  AttentionDropout dropout_;
  Tensor padded_{Shape{0}};             // (N, keys), u8
  bool has_lengths_ = false;  // bottom 3 has the numbers of keys
  Tensor log_sums_{Shape{0}};           // (N, heads, queries)
  Tensor mean_{Shape{0}};               // likewise, of devices
  BlockedAttention<float> blocks_f32_;  // of the host, in one of the types
  BlockedAttention<double> blocks_f64_;
};

}  // namespace

void register_attention(Registry& registry) {
  add_two_sided<AttentionLayer>(registry, "Attention");
}

}  // namespace crema
