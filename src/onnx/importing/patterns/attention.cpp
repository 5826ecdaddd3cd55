// Scaled dot product attention, from MatMul, Softmax and the moves that split and join heads.
#include <algorithm>
#include <cmath>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/index_moves.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

// The tensor that heads were split from, and how.
struct HeadSource {
  Value* value = nullptr;
  int64_t width = 0;   // of a row
  int64_t offset = 0;  // of the heads in it
  bool is_sequence_first = false;
  double scale = 1;
};

struct HeadSizes {
  int64_t batch = 0, heads = 0, steps = 0, width = 0;  // width: of one head
};

// Where element (b, h, t, c) lies in its source.
int64_t source_of(const HeadSizes& sizes, const HeadSource& source, int64_t b, int64_t h, int64_t t,
                  int64_t c) {
  const int64_t row = source.is_sequence_first ? t * sizes.batch + b : b * sizes.steps + t;
  return row * source.width + source.offset + h * sizes.width + c;
}

bool are_heads(const std::vector<int64_t>& indices, const HeadSizes& sizes,
               const HeadSource& source, bool is_transposed) {
  size_t i = 0;
  const int64_t outer = is_transposed ? sizes.width : sizes.steps;
  const int64_t inner = is_transposed ? sizes.steps : sizes.width;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t h = 0; h < sizes.heads; ++h) {
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t t = is_transposed ? k : o, c = is_transposed ? o : k;
          if (indices[i++] != source_of(sizes, source, b, h, t, c)) return false;
        }
      }
    }
  }
  return true;
}

// Follows moves and factors up from an operand (B, H, T, d) or (B * H, T, d), or with its last two
// axes exchanged. `batch` is 0 where it is not known yet, and set.
std::optional<HeadSource> trace_heads(Graph& graph, Value& operand, bool is_transposed,
                                      int64_t& batch) {
  constexpr size_t kLongestChain = 24;
  HeadSource source;
  // Factors do not change the order: behind the moves, and in front of them.
  Value* end = &operand;
  while (const auto scale = as_scale(end->producer)) {
    source.scale *= scale->number;
    end = scale->value;
  }
  std::vector<Node*> chain;
  Value* value = end;
  while (value->producer != nullptr && is_selecting_move(*value->producer) &&
         chain.size() < kLongestChain) {
    chain.insert(chain.begin(), value->producer);
    value = value->producer->input(0);
  }
  while (const auto scale = as_scale(value->producer)) {
    source.scale *= scale->number;
    value = scale->value;
  }
  if (chain.empty() || value->is_constant()) return std::nullopt;
  source.value = value;
  const Shape &shape = operand.shape(), &from = value->shape();
  if (from.rank() != 2 && from.rank() != 3) return std::nullopt;
  source.width = from[-1];
  HeadSizes sizes;
  sizes.steps = shape[is_transposed ? -1 : -2];
  sizes.width = shape[is_transposed ? -2 : -1];
  std::vector<int64_t> batches;
  if (shape.rank() == 4) {
    batches = {shape[0]};
  } else {
    for (const int axis : {0, from.rank() - 2}) {
      const int64_t size =
          from.rank() == 2 ? from[0] / std::max<int64_t>(sizes.steps, 1) : from[axis];
      if (size > 0 && shape[0] % size == 0) batches.push_back(size);
    }
  }
  const auto indices = moved_indices(graph, chain, *end);
  if (!indices || indices->empty() || indices->size() != static_cast<size_t>(shape.count()))
    return std::nullopt;
  for (const int64_t candidate : batches) {
    if (batch != 0 && candidate != batch) continue;
    sizes.batch = candidate;
    sizes.heads = shape.rank() == 4 ? shape[1] : shape[0] / candidate;
    source.offset = (*indices)[0];
    const bool prefers_sequence =
        from.rank() == 3 && from[0] == sizes.steps && from[1] == sizes.batch && from[0] != from[1];
    for (const bool sequence_first : {prefers_sequence, !prefers_sequence}) {
      source.is_sequence_first = sequence_first;
      if (from.rank() == 3 && (from[0] != (sequence_first ? sizes.steps : sizes.batch) ||
                               from[1] != (sequence_first ? sizes.batch : sizes.steps)))
        continue;
      if (source.offset + sizes.heads * sizes.width > source.width) continue;
      if (!are_heads(*indices, sizes, source, is_transposed)) continue;
      batch = candidate;
      return source;
    }
  }
  return std::nullopt;
}

// Whether each query has the keys up to its own alone; none if the mask, which is multiplied by
// `scale` before it counts, is something else. All zeros: false.
std::optional<bool> causal_of(const Value& mask, int64_t queries, int64_t keys, double scale) {
  if (!mask.is_constant() || !is_float(mask.type()) || mask.shape().rank() < 2) return std::nullopt;
  if (mask.shape()[-2] != queries || mask.shape()[-1] != keys ||
      mask.shape().count() != queries * keys)
    return std::nullopt;
  const std::vector<double> values = mask.values().doubles();
  bool is_causal = true, is_zero = true;
  for (int64_t q = 0; q < queries; ++q) {
    for (int64_t k = 0; k < keys; ++k) {
      const double value = values[static_cast<size_t>(q * keys + k)];
      is_zero = is_zero && value == 0;
      is_causal = is_causal && (k <= q ? value == 0 : value * scale <= -1e4);
    }
  }
  if (is_causal && queries > 1) return true;
  if (is_zero) return false;
  return std::nullopt;
}

// A (B, T, D) tensor of the heads' values.
Value& rows_of_heads(Graph& graph, Node& before, const HeadSource& source, int64_t batch,
                     int64_t steps, int64_t width) {
  Value* rows = source.value;
  if (rows->shape().rank() == 2) {
    const std::vector<int64_t> dims = source.is_sequence_first
                                          ? std::vector<int64_t>{steps, batch, source.width}
                                          : std::vector<int64_t>{batch, steps, source.width};
    rows = &graph.add_step(&before, "Reshape",
                           {rows, &index_constant(graph, "attention_shape", dims)});
  }
  if (source.width != width) {
    rows = &graph.add_step(&before, "Slice",
                           {rows, &index_constant(graph, "attention_begin", {source.offset}),
                            &index_constant(graph, "attention_end", {source.offset + width}),
                            &index_constant(graph, "attention_axis", {2})});
  }
  if (source.is_sequence_first)
    rows = &graph.add_step(&before, "Transpose", {rows}, {ints_attribute("perm", {1, 0, 2})});
  return *rows;
}

// Three neighbouring parts of one tensor are cut once.
bool cut_once(Graph& graph, Node& before, const HeadSource (&sources)[3], int64_t batch,
              int64_t steps, int64_t width, std::vector<Value*>& rows) {
  for (int64_t i = 0; i < 3; ++i) {
    const HeadSource& source = sources[i];
    if (source.value != sources[0].value || source.offset != i * width ||
        source.is_sequence_first != sources[0].is_sequence_first || source.width != 3 * width)
      return false;
  }
  Value* whole = sources[0].value;
  const bool sequence_first = sources[0].is_sequence_first;
  if (whole->shape().rank() == 2) {
    const std::vector<int64_t> dims = sequence_first
                                          ? std::vector<int64_t>{steps, batch, 3 * width}
                                          : std::vector<int64_t>{batch, steps, 3 * width};
    whole = &graph.add_step(&before, "Reshape",
                            {whole, &index_constant(graph, "attention_shape", dims)});
  }
  if (sequence_first)
    whole = &graph.add_step(&before, "Transpose", {whole}, {ints_attribute("perm", {1, 0, 2})});
  std::vector<Value*> parts;
  for (const char* part : {"query", "key", "value"})
    parts.push_back(&graph.add_value(before.output()->name + "_" + part));
  graph.add_node(&before, "Split",
                 {whole, &index_constant(graph, "attention_sizes", {width, width, width})}, parts,
                 {int_attribute("axis", 2)});
  rows = parts;
  return true;
}

// The node whose output has the heads joined again, (B, T, D) or (T, B, D) in its order of
// elements.
struct JoinedHeads {
  Node* node = nullptr;
  bool is_sequence_first = false;
};

JoinedHeads joined_behind(Graph& graph, Node& product, const HeadSizes& sizes) {
  constexpr size_t kLongestChain = 8;
  std::vector<Node*> chain;
  Node* at = graph.only_reader(*product.output());
  while (at != nullptr && is_move(*at) && chain.size() < kLongestChain) {
    chain.push_back(at);
    const auto indices = moved_indices(graph, chain, *at->output());
    if (!indices) return {};
    for (const bool sequence_first : {false, true}) {
      // Where there is one sample or one step, both orders are the same: the shape tells.
      const Shape& shape = at->output()->shape();
      if (sequence_first == false && shape.rank() == 3 && shape[0] == sizes.steps &&
          shape[1] == sizes.batch && sizes.steps != sizes.batch)
        continue;
      bool is_joined = shape.rank() >= 2 && shape[-1] == sizes.heads * sizes.width;
      size_t i = 0;
      const int64_t outer = sequence_first ? sizes.steps : sizes.batch;
      const int64_t inner = sequence_first ? sizes.batch : sizes.steps;
      for (int64_t o = 0; o < outer && is_joined; ++o) {
        for (int64_t k = 0; k < inner && is_joined; ++k) {
          const int64_t b = sequence_first ? k : o, t = sequence_first ? o : k;
          for (int64_t h = 0; h < sizes.heads && is_joined; ++h) {
            const int64_t first = ((b * sizes.heads + h) * sizes.steps + t) * sizes.width;
            for (int64_t c = 0; c < sizes.width && is_joined; ++c)
              is_joined = (*indices)[i++] == first + c;
          }
        }
      }
      if (is_joined) return {at, sequence_first};
    }
    at = graph.only_reader(*at->output());
  }
  return {};
}

// Skips what does nothing in inference between the weights and their product.
Node* softmax_of(const Graph& graph, const Value* weights) {
  for (const char* op : {"Dropout", "Identity", "Cast"}) {
    const Node* const between = sole_maker_of(graph, weights, op);
    if (between != nullptr && between->input(0) != nullptr) weights = between->input(0);
  }
  Node* const softmax = sole_maker_of(graph, weights, "Softmax");
  if (softmax == nullptr) return nullptr;
  const int64_t axis = softmax->call().get_int("axis", softmax->opset < 13 ? 1 : -1);
  const int rank = softmax->input(0)->shape().rank();
  return axis == -1 || axis == rank - 1 ? softmax : nullptr;
}

}  // namespace

bool find_attention(Graph& graph, Node& node) {
  if (!node.is("MatMul") || !is_float(node.output()->type())) return false;
  const Node* const softmax = softmax_of(graph, node.input(0));
  if (softmax == nullptr) return false;
  const Shape& weights = softmax->output()->shape();
  if (weights.rank() != 3 && weights.rank() != 4) return false;
  const int64_t queries = weights[-2], keys = weights[-1];
  double scale = 1;
  bool is_causal = false;
  const Value* scores = softmax->input(0);
  for (int step = 0; step < 3; ++step) {
    if (scores->producer == nullptr) return false;
    if (const auto scaled = as_scale(scores->producer)) {
      scale *= scaled->number;
      scores = scaled->value;
    } else if (const Node* const sum = maker_of(scores, "Add")) {
      const size_t mask = sum->input(1)->is_constant() ? 1 : 0;
      const auto causal = causal_of(*sum->input(mask), queries, keys, scale);
      if (!causal || step > 1) return false;
      is_causal = is_causal || *causal;
      scores = sum->input(1 - mask);
    }
  }
  const Node* const product = maker_of(scores, "MatMul");
  if (product == nullptr) return false;
  // Operands that broadcast, as keys that several heads share, are something else.
  for (const Value* operand : {product->input(0), product->input(1), node.input(1)}) {
    const Shape& shape = operand->shape();
    if (shape.rank() != weights.rank()) return false;
    for (int axis = 0; axis < shape.rank() - 2; ++axis) {
      if (shape[axis] != weights[axis]) return false;
    }
  }

  int64_t batch = 0;
  const auto q = trace_heads(graph, *product->input(0), false, batch);
  if (!q) return false;
  const auto k = trace_heads(graph, *product->input(1), true, batch);
  const auto v = k ? trace_heads(graph, *node.input(1), false, batch) : std::nullopt;
  if (!v || v->scale != 1) return false;
  scale *= q->scale * k->scale;
  const int64_t heads = weights.rank() == 4 ? weights[1] : weights[0] / batch;
  const int64_t width = product->input(0)->shape()[-1], value_width = node.output()->shape()[-1];
  const JoinedHeads joined = joined_behind(graph, node, {batch, heads, queries, value_width});
  if (joined.node == nullptr) return false;

  Node& last = *joined.node;
  std::vector<Value*> rows;
  const HeadSource sources[3] = {*q, *k, *v};
  const bool is_one = width == value_width && queries == keys &&
                      cut_once(graph, last, sources, batch, queries, heads * width, rows);
  if (!is_one)
    rows = {&rows_of_heads(graph, last, *q, batch, queries, heads * width),
            &rows_of_heads(graph, last, *k, batch, keys, heads * width),
            &rows_of_heads(graph, last, *v, batch, keys, heads * value_width)};
  NodeAttributes attributes = {int_attribute("num_heads", heads)};
  const double plain = 1 / std::sqrt(static_cast<double>(width));
  if (std::abs(scale - plain) > 1e-6 * plain) attributes.push_back(float_attribute("scale", scale));
  if (is_causal) attributes.push_back(int_attribute("causal", 1));
  Value* out =
      &graph.add_layer_step(&last, "Attention", rows, last.output()->type(),
                            Shape{batch, queries, heads * value_width}, std::move(attributes));
  out->producer->message.set_name(product->message.name());
  if (joined.is_sequence_first)
    out = &graph.add_step(&last, "Transpose", {out}, {ints_attribute("perm", {1, 0, 2})});
  graph.substitute(last, "Reshape",
                   {out, &index_constant(graph, "attention_shape", last.output()->shape().dims())});
  return true;
}

}  // namespace crema::onnx
