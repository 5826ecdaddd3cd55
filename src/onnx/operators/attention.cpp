// Attention and RotaryEmbedding. Computed in double; types of 16 bits are rounded where the
// operator's definition has a value of that type.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

struct AttentionShape {
  bool is_flat = false;  // inputs (batch, sequence, heads * size); else (batch, heads, ...)
  int64_t batch = 0;
  int64_t heads = 0;      // of queries
  int64_t key_heads = 0;  // of keys and values; divides heads
  int64_t queries = 0;    // length of the sequence of queries
  int64_t past = 0;       // keys of the cache
  int64_t keys = 0;       // keys of this call
  int64_t size = 0;       // of a query and a key
  int64_t value_size = 0;
  int64_t total() const { return past + keys; }
  Shape output() const {
    if (is_flat) return {batch, queries, Shape{heads, value_size}.count()};
    return {batch, heads, queries, value_size};
  }
  Shape present_key() const { return {batch, key_heads, total(), size}; }
  Shape present_value() const { return {batch, key_heads, total(), value_size}; }
  Shape logits() const { return {batch, heads, queries, total()}; }
};

int64_t head_size(const Call& call, std::string_view what, int64_t hidden, int64_t heads) {
  if (heads < 1 || hidden % heads != 0)
    call.fail(what, " of ", hidden, " channels cannot be split into ", heads, " heads");
  return hidden / heads;
}

void check_mask(const Call& call, const AttentionShape& shape) {
  need_rank(call, 3, "attn_mask", 1, 4);
  const Shape& mask = call.shape(3);
  const Shape logits = shape.logits();
  const int shift = 4 - mask.rank();
  bool fits = mask[-1] <= shape.total();
  for (int axis = 0; axis + 1 < mask.rank(); ++axis)
    fits = fits && (mask[axis] == 1 || mask[axis] == logits[axis + shift]);
  if (!fits)
    call.fail("attn_mask has shape ", mask.str(), ", which does not broadcast to ", logits.str());
}

AttentionShape attention_shape(const Call& call) {
  need_rank(call, 0, "Q", 3, 4);
  need_rank(call, 1, "K", call.shape(0).rank(), call.shape(0).rank());
  need_rank(call, 2, "V", call.shape(0).rank(), call.shape(0).rank());
  const Shape& q = call.shape(0);
  const Shape& k = call.shape(1);
  const Shape& v = call.shape(2);
  AttentionShape shape;
  shape.is_flat = q.rank() == 3;
  shape.batch = q[0];
  int64_t key_size = 0;
  if (shape.is_flat) {
    shape.heads = call.need_int("q_num_heads");
    shape.key_heads = call.need_int("kv_num_heads");
    shape.size = head_size(call, "Q", q[2], shape.heads);
    key_size = head_size(call, "K", k[2], shape.key_heads);
    shape.value_size = head_size(call, "V", v[2], shape.key_heads);
  } else {
    shape.heads = q[1];
    shape.key_heads = k[1];
    shape.size = q[3];
    key_size = k[3];
    shape.value_size = v[3];
  }
  shape.queries = shape.is_flat ? q[1] : q[2];
  shape.keys = shape.is_flat ? k[1] : k[2];
  const int64_t values = shape.is_flat ? v[1] : v[2];
  const bool heads_fit = shape.is_flat || v[1] == k[1];
  if (k[0] != q[0] || v[0] != q[0] || key_size != shape.size || values != shape.keys || !heads_fit)
    call.fail("Q ", q.str(), ", K ", k.str(), " and V ", v.str(), " do not fit");
  if (shape.key_heads < 1 || shape.heads % shape.key_heads != 0)
    call.fail("the ", shape.heads, " heads of Q are no multiple of the ", shape.key_heads,
              " of K and V");
  if (call.has(4) != call.has(5)) call.fail("past_key and past_value need each other");
  if (call.has(4)) {
    need_rank(call, 4, "past_key", 4, 4);
    shape.past = call.shape(4)[2];
    need_shape(call, 4, "past_key", {shape.batch, shape.key_heads, shape.past, shape.size});
    need_shape(call, 5, "past_value", {shape.batch, shape.key_heads, shape.past, shape.value_size});
  }
  if (call.has(6)) {
    need_shape(call, 6, "nonpad_kv_seqlen", {shape.batch});
    if (call.has(4)) call.fail("nonpad_kv_seqlen and past_key exclude each other");
  }
  if (call.has(3)) check_mask(call, shape);
  need_within(call, "qk_matmul_output_mode", call.get_int("qk_matmul_output_mode", 0), 0, 3);
  need_within(call, "left_window_size", call.get_int("left_window_size", -1), -1);
  need_within(call, "right_window_size", call.get_int("right_window_size", -1), -1);
  return shape;
}

void infer_attention(Call& call) {
  const AttentionShape shape = attention_shape(call);
  checked_count(call, shape.output());
  checked_count(call, shape.logits());
  call.give(0, call.type(0), shape.output());
  call.give(1, call.type(1), shape.present_key());
  call.give(2, call.type(2), shape.present_value());
  call.give(3, call.type(0), shape.logits());
}

/// (batch, heads, length, size), from that or from (batch, length, heads * size).
std::vector<double> by_head(std::vector<double> values, bool is_flat, int64_t batch, int64_t heads,
                            int64_t length, int64_t size) {
  if (!is_flat) return values;
  std::vector<double> result(values.size());
  size_t target = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < length; ++t)
        for (int64_t d = 0; d < size; ++d)
          result[target++] = values[static_cast<size_t>(((b * length + t) * heads + h) * size + d)];
  return result;
}

/// The cache and, behind it, what is new, along the axis of the sequence.
std::vector<double> behind_cache(const std::vector<double>& past, const std::vector<double>& added,
                                 int64_t rows, int64_t past_row, int64_t added_row) {
  std::vector<double> result;
  result.reserve(past.size() + added.size());
  for (int64_t row = 0; row < rows; ++row) {
    result.insert(result.end(), past.begin() + row * past_row, past.begin() + (row + 1) * past_row);
    result.insert(result.end(), added.begin() + row * added_row,
                  added.begin() + (row + 1) * added_row);
  }
  return result;
}

/// What is added to the logit of a query and a key: -infinity where the query must not see the key.
class AttentionBias {
 public:
  AttentionBias(const Call& call, const AttentionShape& shape)
      : shape_(shape),
        causal_(call.get_int("is_causal", 0) != 0),
        left_(call.get_int("left_window_size", -1)),
        right_(call.get_int("right_window_size", -1)) {
    if (call.has(6)) valid_ = integers(call, 6, "nonpad_kv_seqlen");
    for (const int64_t length : valid_)
      need_within(call, "nonpad_kv_seqlen", length, 0, shape.total());
    if (!call.has(3)) return;
    const Array& mask = call.constant(3, "attn_mask");
    is_bool_ = mask.type() == TensorProto::BOOL;
    mask_ = mask.doubles();
    dims_.assign(static_cast<size_t>(4 - mask.shape().rank()), 1);
    dims_.insert(dims_.end(), mask.shape().dims().begin(), mask.shape().dims().end());
  }

  double at(int64_t b, int64_t h, int64_t query, int64_t key) const {
    int64_t offset = shape_.past;
    if (!valid_.empty()) {
      const int64_t valid = valid_[static_cast<size_t>(b)];
      if (key >= valid) return kMasked;
      offset = valid - shape_.queries;
    }
    const int64_t ahead = key - query - offset;
    if (causal_ && ahead > 0) return kMasked;
    if ((left_ >= 0 && -ahead > left_) || (right_ >= 0 && ahead > right_)) return kMasked;
    if (dims_.empty()) return 0;
    if (key >= dims_[3]) return kMasked;
    const int64_t place =
        (((dims_[0] == 1 ? 0 : b) * dims_[1] + (dims_[1] == 1 ? 0 : h)) * dims_[2] +
         (dims_[2] == 1 ? 0 : query)) *
            dims_[3] +
        key;
    const double value = mask_[static_cast<size_t>(place)];
    if (is_bool_) return value != 0 ? 0 : kMasked;
    return value;
  }

 private:
  const AttentionShape& shape_;
  bool causal_;
  int64_t left_;
  int64_t right_;
  std::vector<int64_t> valid_;
  bool is_bool_ = false;
  std::vector<double> mask_;
  std::vector<int64_t> dims_;
};

ElementType softmax_type(const Call& call) {
  const int64_t type = call.get_int("softmax_precision", call.type(0));
  if (type < 0 || type > TensorProto::BFLOAT16 || !is_float(static_cast<ElementType>(type)))
    call.fail("softmax_precision ", type, " is no type of floats");
  return static_cast<ElementType>(type);
}

void evaluate_attention(Call& call) {
  const AttentionShape s = attention_shape(call);
  const ElementType type = call.type(0);
  const auto rounded = [&](double value) {
    return element_size(type) == 2 ? rounded_to(type, value) : value;
  };
  const auto row = [](const std::vector<double>& values, int64_t index, int64_t size) {
    return std::span<const double>(values).subspan(static_cast<size_t>(index * size),
                                                   static_cast<size_t>(size));
  };
  const std::vector<double> q =
      by_head(numbers(call, 0, "Q"), s.is_flat, s.batch, s.heads, s.queries, s.size);
  std::vector<double> k =
      by_head(numbers(call, 1, "K"), s.is_flat, s.batch, s.key_heads, s.keys, s.size);
  std::vector<double> v =
      by_head(numbers(call, 2, "V"), s.is_flat, s.batch, s.key_heads, s.keys, s.value_size);
  if (call.has(4)) {
    const int64_t rows = s.batch * s.key_heads;
    k = behind_cache(numbers(call, 4, "past_key"), k, rows, s.past * s.size, s.keys * s.size);
    v = behind_cache(numbers(call, 5, "past_value"), v, rows, s.past * s.value_size,
                     s.keys * s.value_size);
  }
  const double scale = call.has_attribute("scale") ? call.get_float("scale", 1)
                                                   : 1 / std::sqrt(static_cast<double>(s.size));
  const double factor = rounded(std::sqrt(scale));
  const double softcap = call.get_float("softcap", 0);
  const int64_t mode = call.get_int("qk_matmul_output_mode", 0);
  const ElementType precision = softmax_type(call);
  const AttentionBias bias(call, s);
  const int64_t total = s.total();
  std::vector<double> output(checked_count(call, s.output()), 0);
  std::vector<double> shown(call.wants(3) ? checked_count(call, s.logits()) : 0, 0);
  std::vector<double> logits(static_cast<size_t>(total));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t key_row = (b * s.key_heads + h / (s.heads / s.key_heads)) * total;
      for (int64_t i = 0; i < s.queries; ++i) {
        const auto query = row(q, (b * s.heads + h) * s.queries + i, s.size);
        const int64_t shown_row = ((b * s.heads + h) * s.queries + i) * total;
        bool sees_nothing = true;
        for (int64_t j = 0; j < total; ++j) {
          const auto key = row(k, key_row + j, s.size);
          double sum = 0;
          for (size_t d = 0; d < query.size(); ++d)
            sum += rounded(query[d] * factor) * rounded(key[d] * factor);
          sum = rounded(sum);
          double& raw = logits[static_cast<size_t>(j)];
          raw = softcap > 0 ? rounded(softcap * std::tanh(sum / softcap)) : sum;
          const double added = bias.at(b, h, i, j);
          sees_nothing = sees_nothing && added == kMasked;
          if (!shown.empty() && mode < 3)
            shown[static_cast<size_t>(shown_row + j)] =
                mode == 0 ? sum : (mode == 1 ? raw : raw + added);
          // A masked key stays masked where its product overflowed to +infinity.
          raw = added == kMasked ? kMasked : rounded_to(precision, rounded(raw + added));
        }
        if (sees_nothing)
          std::fill(logits.begin(), logits.end(), 0.0);
        else
          softmax_line(precision, logits);
        for (int64_t j = 0; j < total; ++j) {
          const double share = rounded(logits[static_cast<size_t>(j)]);
          if (!shown.empty() && mode == 3) shown[static_cast<size_t>(shown_row + j)] = share;
          if (share == 0) continue;
          const auto value = row(v, key_row + j, s.value_size);
          const int64_t target =
              s.is_flat ? (b * s.queries + i) * s.heads + h : (b * s.heads + h) * s.queries + i;
          for (size_t d = 0; d < value.size(); ++d)
            output[static_cast<size_t>(target * s.value_size) + d] += share * value[d];
        }
      }
    }
  }
  call.give(0, Array::of_doubles(type, s.output(), output));
  call.give(1, Array::of_doubles(call.type(1), s.present_key(), k));
  call.give(2, Array::of_doubles(call.type(2), s.present_value(), v));
  if (call.wants(3)) call.give(3, Array::of_doubles(type, s.logits(), shown));
}

// RotaryEmbedding

struct RotaryShape {
  bool is_flat = false;  // (batch, sequence, heads * size); else (batch, heads, sequence, size)
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t length = 0;
  int64_t size = 0;
  int64_t rotated = 0;  // the first elements of each head, an even number
};

RotaryShape rotary_shape(const Call& call) {
  need_rank(call, 0, "X", 3, 4);
  const Shape& x = call.shape(0);
  RotaryShape shape;
  shape.is_flat = x.rank() == 3;
  shape.batch = x[0];
  shape.heads = shape.is_flat ? call.need_int("num_heads") : x[1];
  shape.length = shape.is_flat ? x[1] : x[2];
  shape.size = shape.is_flat ? head_size(call, "X", x[2], shape.heads) : x[3];
  shape.rotated = call.get_int("rotary_embedding_dim", 0);
  if (shape.rotated == 0) shape.rotated = shape.size;
  need_within(call, "rotary_embedding_dim", shape.rotated, 0, shape.size);
  if (shape.rotated % 2 != 0) call.fail("an odd number of elements, ", shape.rotated, ", to turn");
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const std::string_view what = i == 1 ? "cos_cache" : "sin_cache";
    if (call.has(3)) {
      need_rank(call, i, what, 2, 2);
      need_shape(call, i, what, {call.shape(1)[0], shape.rotated / 2});
    } else {
      need_shape(call, i, what, {shape.batch, shape.length, shape.rotated / 2});
    }
  }
  if (call.has(3)) need_shape(call, 3, "position_ids", {shape.batch, shape.length});
  return shape;
}

void infer_rotary(Call& call) {
  rotary_shape(call);
  call.give(0, call.type(0), call.shape(0));
}

void evaluate_rotary(Call& call) {
  const Array& x = call.constant(0, "X");
  const RotaryShape s = rotary_shape(call);
  std::vector<double> values = x.doubles();
  const std::vector<double> cosines = numbers(call, 1, "cos_cache");
  const std::vector<double> sines = numbers(call, 2, "sin_cache");
  std::vector<int64_t> positions;
  if (call.has(3)) positions = integers(call, 3, "position_ids");
  for (const int64_t position : positions)
    need_within(call, "a position", position, 0, call.shape(1)[0] - 1);
  const bool interleaved = call.get_int("interleaved", 0) != 0;
  const int64_t half = s.rotated / 2;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.length; ++t) {
      const int64_t token = b * s.length + t;
      const int64_t angles = (positions.empty() ? token : positions[static_cast<size_t>(token)]);
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t head = s.is_flat ? token * s.heads + h : (b * s.heads + h) * s.length + t;
        for (int64_t d = 0; d < half; ++d) {
          const auto angle = static_cast<size_t>(angles * half + d);
          const int64_t first = head * s.size + (interleaved ? 2 * d : d);
          double& real = values[static_cast<size_t>(first)];
          double& imaginary = values[static_cast<size_t>(first + (interleaved ? 1 : half))];
          const double turned = cosines[angle] * real - sines[angle] * imaginary;
          imaginary = sines[angle] * real + cosines[angle] * imaginary;
          real = turned;
        }
      }
    }
  }
  call.give(0, Array::of_doubles(x.type(), x.shape(), values));
}

}  // namespace

void add_attention_operators(OperatorTable& table) {
  table.add({.name = "Attention",
             .min_inputs = 3,
             .max_inputs = 7,
             .max_outputs = 4,
             .infer = infer_attention,
             .evaluate = evaluate_attention});
  table.add({.name = "RotaryEmbedding",
             .min_inputs = 3,
             .max_inputs = 4,
             .infer = infer_rotary,
             .evaluate = evaluate_rotary});
}

}  // namespace crema::onnx
