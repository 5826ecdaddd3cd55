// Attention: scaled dot product attention of several heads. See README.md.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layers/attention/attention_layer.hpp"
#include "layers/attention/attention_tiles.hpp"
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

template <class T>
struct WriteLengths {
  int64_t row, queries;
  const T* keys;
  int32_t* lengths;  // (2, row)
  CREMA_FUNCTOR void operator()(int64_t n) const {
    lengths[n] = static_cast<int32_t>(queries);
    lengths[row + n] = static_cast<int32_t>(keys[n]);
  }
};

}  // namespace

struct AttentionLayer::Device {
  PassKey key;
  Tensor mean{Shape{0}};  // (N, heads, queries): attention::MeanBody
};

AttentionLayer::~AttentionLayer() = default;

AttentionLayer::AttentionLayer(const LayerInit& init)
    : TwoSidedLayer(init), stream_(stream_id(name())), device_(std::make_unique<Device>()) {
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

void AttentionLayer::fit_whole(const Blob& bottom) {
  const Shape& shape = bottom.shape();
  const int64_t values = 3 * static_cast<int64_t>(sizes_.heads);
  if (shape.rank() != 3 || shape[2] == 0 || shape[2] % values != 0)
    throw Error("'", bottom.name, "' (", shape.str(), ") cannot be split among queries, keys and ",
                "values of ", sizes_.heads,
                " heads; num_heads has to divide a third of its values");
  sizes_.batch = shape[0];
  sizes_.queries = sizes_.keys = shape[1];
  sizes_.depth = sizes_.value_depth = shape[2] / values;
}

void AttentionLayer::fit_parts(Blobs bottom) {
  const Shape &q = bottom[0]->shape(), &k = bottom[1]->shape(), &v = bottom[2]->shape();
  for (int i = 0; i < 3; ++i) {
    const Blob& blob = *bottom[static_cast<size_t>(i)];
    if (blob.shape().rank() != 3)
      throw Error("'", blob.name, "' (", blob.shape().str(),
                  ") is not of the form (N, T, D); Reshape or Permute makes it so");
    if (blob.shape()[2] == 0 || blob.shape()[2] % sizes_.heads != 0)
      throw Error("the ", blob.shape()[2], " values of '", blob.name, "' (", blob.shape().str(),
                  ") cannot be split among ", sizes_.heads, " heads; num_heads has to divide them");
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
}

void AttentionLayer::reshape(Blobs bottom, Blobs top) {
  whole_ ? fit_whole(*bottom[0]) : fit_parts(bottom);
  const auto at = static_cast<size_t>(masks());
  const bool is_masked = bottom.size() > at;
  has_lengths_ = is_masked && bottom[at]->shape().rank() == 1;
  if (is_masked) {
    const Shape &mask = bottom[at]->shape(), pairs{sizes_.batch, sizes_.keys}, each{sizes_.batch};
    if (mask != pairs && mask != each)
      throw Error("'", bottom[at]->name, "' (", mask.str(), ") is neither a mask of the keys (",
                  pairs.str(), "), not 0 for padding, nor their numbers (", each.str(), ")");
    padded_ = Tensor(pairs, DType::u8);
  }
  top[0]->reshape(Shape{sizes_.batch, sizes_.queries, sizes_.heads * sizes_.value_depth});
  const Shape each{sizes_.batch, sizes_.heads, sizes_.queries};
  if (log_sums_.shape() != each || log_sums_.dtype() != dtype()) {
    log_sums_ = Tensor(each, dtype());
  }
}

Flops AttentionLayer::flops(Blobs, Blobs) const {
  const double pairs = static_cast<double>(sizes_.batch * sizes_.heads * sizes_.queries) *
                       static_cast<double>(sizes_.keys) * (causal() ? 0.5 : 1);
  const auto depth = static_cast<double>(sizes_.depth + sizes_.value_depth);
  return {2 * pairs * depth, 5 * pairs * depth};
}

size_t AttentionLayer::kept_bytes() const {
  return log_sums_.bytes() + device_->mean.bytes() + padded_.bytes() + blocks_f32_.bytes() +
         blocks_f64_.bytes();
}

void AttentionLayer::prepare_reference(Blobs, Blobs) {
  dispatch_float(dtype(), [&]<class T>(T) { fit_blocks<T>(); });
}

bool AttentionLayer::causal() const { return param().attention_param().causal(); }

double AttentionLayer::scale() const {
  const AttentionParameter& settings = param().attention_param();
  return settings.has_scale() ? static_cast<double>(settings.scale())
                              : 1 / std::sqrt(static_cast<double>(sizes_.depth));
}

template <class T>
AttentionInputs<T> AttentionLayer::inputs(Blobs bottom) const {
  const int64_t keys_row = sizes_.heads * sizes_.depth,
                values_row = sizes_.heads * sizes_.value_depth;
  const uint8_t* const padded = std::ssize(bottom) > masks() ? padded_.read<uint8_t>() : nullptr;
  const auto scaled = static_cast<T>(scale());
  const T* const q = bottom[0]->data.read<T>();
  if (whole_) {
    const int64_t row = 3 * keys_row;
    return {q, q + keys_row, q + 2 * keys_row, row, row, row, scaled, causal(), padded, dropout_};
  }
  return {q,
          bottom[1]->data.read<T>(),
          bottom[2]->data.read<T>(),
          keys_row,
          keys_row,
          values_row,
          scaled,
          causal(),
          padded,
          dropout_};
}

void AttentionLayer::take_masks(const ComputeDevice& device, Blobs bottom) {
  if (std::ssize(bottom) <= masks()) return;
  const Blob& given = *bottom[static_cast<size_t>(masks())];
  const bool is_mask = given.shape().rank() == 2;
  if (!is_mask) least_length(given);
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* values = device.read<T>(given.data);
    for_each(device, padded_.count(), kElementGrain,
             FindPadding<T>{sizes_.keys, is_mask ? values : nullptr, values,
                            device.overwrite<uint8_t>(padded_)});
  });
}

int64_t AttentionLayer::least_length(const Blob& given) const {
  int64_t least = sizes_.keys;
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* lengths = given.data.read<T>();
    for (int64_t n = 0; n < sizes_.batch; ++n) {
      const auto length = static_cast<double>(lengths[n]);
      if (!(length >= 0 && length <= static_cast<double>(sizes_.keys) &&
            length == std::floor(length)))
        throw Error("sample ", n, " has ", length, " keys in '", given.name,
                    "'; it has to be a whole number from 0 to ", sizes_.keys);
      least = std::min(least, static_cast<int64_t>(length));
    }
  });
  return least;
}

void AttentionLayer::write_lengths(const ComputeDevice& device, const Blob& given,
                                   Tensor& lengths) const {
  if (lengths.dtype() != DType::i32) lengths = Tensor(Shape{0}, DType::i32);
  // Each row begins at a multiple of 16 bytes.
  constexpr int64_t kUnit = 4;
  const int64_t row = (sizes_.batch + kUnit - 1) / kUnit * kUnit;
  lengths.reshape(Shape{2, row});
  dispatch_float(dtype(), [&]<class T>(T) {
    for_each(device, sizes_.batch, kElementGrain,
             WriteLengths<T>{row, sizes_.queries, device.read<T>(given.data),
                             device.overwrite<int32_t>(lengths)});
  });
}

template <class T>
BlockedAttention<T>& AttentionLayer::fit_blocks() {
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

std::string AttentionLayer::device_refusal(Blobs) const {
  using namespace attention;
  bool fits = false;
  dispatch_float(dtype(), [&]<class T>(T) {
    const int most =
        trains() ? rows_for<T, KeyGradientsTile>(sizes_) : rows_for<T, ForwardTile>(sizes_);
    fits = most > 0;
  });
  return fits ? ""
              : text("heads of ", sizes_.depth,
                     " values are wider than the memory that threads of "
                     "a GPU share");
}

template <class T>
void AttentionLayer::forward_on_device(const ComputeDevice& device, Blobs bottom, Blobs top) {
  using namespace attention;
  const Heads<T> heads{sizes_,
                       values_in<T>(device, bottom[0]->data),
                       values_in<T>(device, bottom[1]->data),
                       values_in<T>(device, bottom[2]->data),
                       static_cast<T>(scale()),
                       causal(),
                       bottom.size() == 4 ? device.read<uint8_t>(padded_) : nullptr,
                       dropout_,
                       device_->key.on(device)};
  const ForwardTile<T> tile{heads, rows_for<T, ForwardTile>(sizes_),
                            values_out<T>(device, top[0]->data), device.overwrite<T>(log_sums_)};
  for_each_tile(device, sizes_, sizes_.queries, tile);
}

void AttentionLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (drops()) {
    device_->key.draw(device, *this, stream_);
    const RandomKey key = device_->key.on(device);
    dropout_.key0 = key.key0;
    dropout_.key1 = key.key1;
  }
  take_masks(device, bottom);
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return forward_on_device<T>(device, bottom, top);
    fit_blocks<T>().forward(inputs<T>(bottom), top[0]->data.overwrite<T>(),
                            log_sums_.overwrite<T>());
  });
}

template <class T>
void AttentionLayer::backward_on_device(const ComputeDevice& device, Blobs top,
                                        const std::vector<bool>& propagate, Blobs bottom) {
  using namespace attention;
  const Heads<T> heads{sizes_,
                       values_in<T>(device, bottom[0]->data),
                       values_in<T>(device, bottom[1]->data),
                       values_in<T>(device, bottom[2]->data),
                       static_cast<T>(scale()),
                       causal(),
                       bottom.size() == 4 ? device.read<uint8_t>(padded_) : nullptr,
                       dropout_,
                       device_->key.on(device)};
  Tensor& mean = device_->mean;
  if (mean.shape() != log_sums_.shape()) mean = Tensor(log_sums_.shape(), dtype());
  const ValuesIn<T> dy = values_in<T>(device, top[0]->diff);
  T* const means = device.overwrite<T>(mean);
  for_each(device, mean.count(), 1,
           MeanBody<T>{sizes_, values_in<T>(device, top[0]->data), dy, means});
  const Gradients<T> gradients{heads, dy, device.read<T>(log_sums_), means};
  const auto diff = [&](size_t i) {
    return propagate[i] ? values_out<T>(device, bottom[i]->diff) : ValuesOut<T>();
  };
  if (propagate[0]) {
    for_each_tile(
        device, sizes_, sizes_.queries,
        QueryGradientsTile<T>{gradients, rows_for<T, QueryGradientsTile>(sizes_), diff(0)});
  }
  if (!propagate[1] && !propagate[2]) return;
  for_each_tile(
      device, sizes_, sizes_.keys,
      KeyGradientsTile<T>{gradients, rows_for<T, KeyGradientsTile>(sizes_), diff(1), diff(2)});
}

void AttentionLayer::run_backward(const ComputeDevice& device, Blobs top,
                                  const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return backward_on_device<T>(device, top, propagate, bottom);
    const auto diff = [&](size_t i) {
      return propagate[i] ? bottom[i]->diff.overwrite<T>() : nullptr;
    };
    AttentionGradients<T> gradients{
        top[0]->data.read<T>(), top[0]->diff.read<T>(), log_sums_.read<T>(), diff(0), {}, {}};
    if (!whole_) {
      gradients.dk = diff(1);
      gradients.dv = diff(2);
    } else if (gradients.dq != nullptr) {
      gradients.dk = gradients.dq + sizes_.heads * sizes_.depth;
      gradients.dv = gradients.dk + sizes_.heads * sizes_.depth;
    }
    fit_blocks<T>().backward(inputs<T>(bottom), gradients);
  });
}

void register_attention(Registry& registry) {
  add_two_sided<AttentionLayer>(registry, "Attention");
}

}  // namespace crema
