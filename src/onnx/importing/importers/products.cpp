// MatMul, Gemm and Attention. Products with weights are layers InnerProduct: see patterns/.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

// The axes in front of the matrices.
std::vector<int64_t> batch_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end() - 2};
}

// The operand with `batch` in front of its matrices.
LayerEnd spread(const Node& node, LayerWriter& writer, const LayerEnd& from, const Shape& shape,
                const std::vector<int64_t>& batch, std::string_view step) {
  if (batch_of(shape) == batch) return from;
  std::string spread_blob = writer.inner_blob(node, step);
  ExpandParameter& expand =
      *writer.add(node, "Expand", {from}, {spread_blob}, step).mutable_expand_param();
  for (const int64_t dim : batch) expand.add_dim(dim);
  expand.add_dim(-1);
  expand.add_dim(-1);
  return {std::move(spread_blob)};
}

void import_mat_mul(const Node& node, LayerWriter& writer) {
  need_floats(node);
  Shape a = node.input(0)->shape(), b = node.input(1)->shape();
  if (a.rank() == 0 || b.rank() == 0) give_up("a scalar");
  LayerEnd left(node.input(0)), right(node.input(1));
  const bool is_row = a.rank() == 1, is_column = b.rank() == 1;
  if (is_row) {
    const std::string row = writer.inner_blob(node, "row");
    add_reshape(node, writer, left, a, row, Shape{1, a[0]}, "row");
    left = LayerEnd(row);
    a = Shape{1, a[0]};
  }
  if (is_column) {
    const std::string column = writer.inner_blob(node, "column");
    add_reshape(node, writer, right, b, column, Shape{b[0], 1}, "column");
    right = LayerEnd(column);
    b = Shape{b[0], 1};
  }
  const Shape batch = broadcast(Shape(batch_of(a)), Shape(batch_of(b)));
  left = spread(node, writer, left, a, batch.dims(), "left");
  if (b.rank() > 2) right = spread(node, writer, right, b, batch.dims(), "right");
  if (!is_row && !is_column) {
    writer.add(node, "MatMul", {left, right}, {node.output()});
    return;
  }
  std::vector<int64_t> dims = batch.dims();
  dims.push_back(a[-2]);
  dims.push_back(b[-1]);
  const std::string product = writer.inner_blob(node, "product");
  writer.add(node, "MatMul", {left, right}, {product}, "product");
  add_reshape(node, writer, product, Shape(dims), node.output(), node.output()->shape());
}

void import_gemm(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Call call = node.call();
  const double alpha = call.get_float("alpha", 1), beta = call.get_float("beta", 1);
  const Value* const added = beta == 0 ? nullptr : node.input(2);
  const std::string product = added == nullptr ? std::string() : writer.inner_blob(node, "product");
  LayerParameter& layer =
      writer.add(node, "MatMul", {node.input(0), node.input(1)},
                 {added == nullptr ? LayerEnd(node.output()) : LayerEnd(product)});
  MatMulParameter& settings = *layer.mutable_matmul_param();
  if (call.get_int("transA", 0) != 0) settings.set_transpose_a(true);
  if (call.get_int("transB", 0) != 0) settings.set_transpose_b(true);
  if (alpha != 1) settings.set_scale(static_cast<float>(alpha));
  if (added == nullptr) return;
  LayerEnd summand(added);
  if (beta != 1) {
    const std::string scaled = writer.inner_blob(node, "scaled");
    writer.add(node, "Power", {summand}, {scaled}, "scaled")
        .mutable_power_param()
        ->set_scale(static_cast<float>(beta));
    summand = LayerEnd(scaled);
  }
  writer.add(node, "Arithmetic", {product, summand}, {node.output()}, "sum");
}

// The form that a layer Attention computes: (N, T, D) operands, one key head for each query head.
void import_attention(const Node& node, LayerWriter& writer) {
  need_floats(node);
  need_one_output(node, writer);
  const Call call = node.call();
  for (size_t i = 3; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != nullptr) give_up("a mask or a past");
  }
  const Shape &q = node.input(0)->shape(), &k = node.input(1)->shape();
  if (q.rank() != 3) give_up("operands of ", q.rank(), " axes");
  const int64_t heads = call.get_int("q_num_heads", 0);
  if (heads < 1 || call.get_int("kv_num_heads", 0) != heads || q[2] % heads != 0 || k[2] != q[2])
    give_up("query heads that share keys");
  if (call.get_float("softcap", 0) != 0) give_up("softcap");
  LayerParameter& layer =
      writer.add(node, "Attention", {node.input(0), node.input(1), node.input(2)}, {node.output()});
  AttentionParameter& settings = *layer.mutable_attention_param();
  settings.set_num_heads(as_setting(heads));
  if (call.has_attribute("scale"))
    settings.set_scale(static_cast<float>(call.get_float("scale", 1)));
  if (call.get_int("is_causal", 0) != 0) settings.set_causal(true);
}

}  // namespace

void add_product_importers(ImporterTable& table) {
  table.add("MatMul", import_mat_mul);
  table.add("Gemm", import_gemm);
  table.add("Attention", import_attention);
}

}  // namespace crema::onnx
