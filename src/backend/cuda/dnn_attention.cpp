#include "backend/cuda/dnn_attention.hpp"

#include <limits>

#include "crema/error.hpp"

namespace crema {
namespace {

using Operands = std::span<const DnnDescriptor* const>;

/// The pointers of a run.
enum Id : int64_t {
  kQ = 1,
  kK,
  kV,
  kY,
  kLogSums,
  kQueryLengths,
  kKeyLengths,
  kScale,
  kMasked,  // the score of a key that does not count
  kOne,
  kDy,
  kDq,
  kDk,
  kDv,
  kMeans,   // of the gradients of a query's weights
  kDqSums,  // f32
  kBetween = 64
};

/// Rows of heads are read by 16 bytes at a time.
constexpr int64_t kDepthUnit = 8;
constexpr size_t kBoundary = 256;

size_t round_up(size_t bytes) { return (bytes + kBoundary - 1) / kBoundary * kBoundary; }

cudnnDataType_t precision_of(DType dtype) {
  return dtype == DType::i32  ? CUDNN_DATA_INT32
         : dtype == DType::u8 ? CUDNN_DATA_BOOLEAN
                              : CUDNN_DATA_FLOAT;
}

/// Operations of a graph, whose results lie between them unless one is given.
class Builder {
 public:
  using Dims = std::vector<int64_t>;

  DnnGraph graph;

  static DnnTensor dense(int64_t id, DType dtype, Dims dims) {
    DnnTensor tensor{.id = id, .dtype = dtype, .dims = std::move(dims), .strides = {}};
    tensor.strides.assign(tensor.dims.size(), 1);
    for (size_t i = tensor.dims.size() - 1; i-- > 0;)
      tensor.strides[i] = tensor.strides[i + 1] * tensor.dims[i + 1];
    return tensor;
  }
  static DnnTensor number(int64_t id) {
    DnnTensor tensor = dense(id, DType::f32, {1, 1, 1, 1});
    tensor.is_number = true;
    return tensor;
  }
  DnnTensor between(DType dtype, Dims dims) {
    DnnTensor tensor = dense(next_++, dtype, std::move(dims));
    tensor.is_virtual = true;
    return tensor;
  }

  /// Lengths override the rows, columns or inner extent of the product where they are not null.
  struct Lengths {
    const DnnTensor *rows = nullptr, *columns = nullptr, *inner = nullptr;
  };
  void multiply(const DnnTensor& a, const DnnTensor& b, const DnnTensor& c, const Lengths& lengths,
                bool pads) {
    std::vector<DnnTensor> operands = {a, b, c};
    std::vector<cudnnBackendAttributeName_t> names = {CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                                      CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                                                      CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    const auto add = [&](const DnnTensor* length, cudnnBackendAttributeName_t name) {
      if (length == nullptr) return;
      operands.push_back(*length);
      names.push_back(name);
    };
    add(lengths.rows, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
    add(lengths.columns, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
    add(lengths.inner, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    std::string name = text("product", pads ? " padded" : "");
    for (const auto attribute : names) name += text(" ", static_cast<int>(attribute));
    graph.operate(name, operands, [names, pads](Operands of) {
      DnnDescriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
      product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
      if (pads) product.set(CUDNN_ATTR_MATMUL_PADDING_VALUE, 0.0);
      product.finalize();
      DnnDescriptor made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
      for (size_t i = 0; i < names.size(); ++i) made.set(names[i], *of[i]);
      made.finalize();
      return made;
    });
  }

  /// y = x op b, or op of x without b; `select`: where it is false, y = b. `axis`: of GEN_INDEX.
  void pointwise(cudnnPointwiseMode_t mode, const DnnTensor& x, const DnnTensor* b,
                 const DnnTensor* select, const DnnTensor& y, DType computes = DType::f32,
                 int64_t axis = -1) {
    std::vector<DnnTensor> operands = {x, y};
    if (b != nullptr) operands.push_back(*b);
    if (select != nullptr) operands.push_back(*select);
    const cudnnDataType_t precision = precision_of(computes);
    graph.operate(text("pointwise ", static_cast<int>(mode), " in ", static_cast<int>(precision),
                       " axis ", axis),
                  operands, [=](Operands of) {
                    DnnDescriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
                    function.set(CUDNN_ATTR_POINTWISE_MODE, mode)
                        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
                    if (axis >= 0) function.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
                    function.finalize();
                    DnnDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
                    made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *of[0])
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *of[1]);
                    if (of.size() > 2) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *of[2]);
                    if (of.size() > 3) made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *of[3]);
                    made.finalize();
                    return made;
                  });
  }
  DnnTensor unary(cudnnPointwiseMode_t mode, const DnnTensor& x) {
    const DnnTensor y = between(DType::f32, x.dims);
    pointwise(mode, x, nullptr, nullptr, y);
    return y;
  }
  DnnTensor binary(cudnnPointwiseMode_t mode, const DnnTensor& x, const DnnTensor& b) {
    const DnnTensor y = between(DType::f32, x.dims);
    pointwise(mode, x, &b, nullptr, y);
    return y;
  }
  DnnTensor compare(cudnnPointwiseMode_t mode, const DnnTensor& x, const DnnTensor& b) {
    const DnnTensor y = between(DType::u8, x.dims);
    pointwise(mode, x, &b, nullptr, y, DType::u8);
    return y;
  }
  DnnTensor index(const DnnTensor& like, int64_t axis, DType computes) {
    const DnnTensor y = between(DType::i32, like.dims);
    pointwise(CUDNN_POINTWISE_GEN_INDEX, like, nullptr, nullptr, y, computes, axis);
    return y;
  }
  DnnTensor where(const DnnTensor& x, const DnnTensor& mask, const DnnTensor& other) {
    const DnnTensor y = between(DType::f32, x.dims);
    pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, &other, &mask, y);
    return y;
  }

  void reduce(cudnnReduceTensorOp_t operation, const DnnTensor& x, const DnnTensor& y) {
    graph.operate(text("reduction ", static_cast<int>(operation)), {x, y},
                  [operation](Operands of) {
                    DnnDescriptor function(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
                    function.set(CUDNN_ATTR_REDUCTION_OPERATOR, operation)
                        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                        .finalize();
                    DnnDescriptor made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
                    made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, function)
                        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *of[0])
                        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *of[1])
                        .finalize();
                    return made;
                  });
  }
  /// The last value of each row.
  DnnTensor reduce_rows(cudnnReduceTensorOp_t operation, const DnnTensor& x) {
    const DnnTensor y = between(DType::f32, {x.dims[0], x.dims[1], x.dims[2], 1});
    reduce(operation, x, y);
    return y;
  }

  /// x with its last two axes exchanged, in a type.
  DnnTensor transposed(const DnnTensor& x, DType dtype) {
    DnnTensor y = x;
    y.id = next_++;
    y.dtype = dtype;
    y.is_virtual = true;
    std::swap(y.dims[2], y.dims[3]);
    std::swap(y.strides[2], y.strides[3]);
    graph.operate("transposition", {x, y}, [](Operands of) {
      DnnDescriptor made(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *of[0])
          .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *of[1])
          .finalize();
      return made;
    });
    return y;
  }

 private:
  int64_t next_ = kBetween;
};

/// The tensors of a problem, (batch, heads, positions, depth).
struct Tensors {
  DnnTensor q, k, v, y, log_sums, query_lengths, key_lengths, scale, masked;
  bool has_lengths;

  explicit Tensors(const DnnAttentionProblem& p) : has_lengths(p.has_lengths) {
    q = heads_of(kQ, p.dtype, p, p.queries, p.depth);
    k = heads_of(kK, p.dtype, p, p.keys, p.depth);
    v = heads_of(kV, p.dtype, p, p.keys, p.value_depth);
    y = heads_of(kY, p.dtype, p, p.queries, p.value_depth);
    log_sums = Builder::dense(kLogSums, DType::f32, {p.batch, p.heads, p.queries, 1});
    query_lengths = Builder::dense(kQueryLengths, DType::i32, {p.batch, 1, 1, 1});
    key_lengths = Builder::dense(kKeyLengths, DType::i32, {p.batch, 1, 1, 1});
    scale = Builder::number(kScale);
    masked = Builder::number(kMasked);
  }

  static DnnTensor heads_of(int64_t id, DType dtype, const DnnAttentionProblem& p,
                            int64_t positions, int64_t depth) {
    const int64_t row = p.heads * depth;
    return {.id = id,
            .dtype = dtype,
            .dims = {p.batch, p.heads, positions, depth},
            .strides = {positions * row, depth, row, 1}};
  }
  static DnnTensor swapped(DnnTensor tensor) {
    std::swap(tensor.dims[2], tensor.dims[3]);
    std::swap(tensor.strides[2], tensor.strides[3]);
    return tensor;
  }
  const DnnTensor* of_queries() const { return has_lengths ? &query_lengths : nullptr; }
  const DnnTensor* of_keys() const { return has_lengths ? &key_lengths : nullptr; }
};

/// scale q k^T: (batch, heads, queries, keys).
DnnTensor scores(Builder& to, const DnnAttentionProblem& p, const Tensors& of, bool pads) {
  const DnnTensor products = to.between(DType::f32, {p.batch, p.heads, p.queries, p.keys});
  to.multiply(of.q, Tensors::swapped(of.k), products,
              {.rows = of.of_queries(), .columns = of.of_keys()}, pads);
  return to.binary(CUDNN_POINTWISE_MUL, products, of.scale);
}

DnnTensor behind_padding(Builder& to, const Tensors& of, const DnnTensor& score) {
  if (!of.has_lengths) return score;
  const DnnTensor row = to.index(score, 2, DType::i32), column = to.index(score, 3, DType::i32);
  const DnnTensor has_row = to.compare(CUDNN_POINTWISE_CMP_LT, row, of.query_lengths);
  const DnnTensor has_column = to.compare(CUDNN_POINTWISE_CMP_LT, column, of.key_lengths);
  const DnnTensor both = to.compare(CUDNN_POINTWISE_LOGICAL_AND, has_row, has_column);
  return to.where(score, both, of.masked);
}

DnnTensor up_to_diagonal(Builder& to, bool causal, const Tensors& of, const DnnTensor& score) {
  if (!causal) return score;
  const DnnTensor row = to.index(score, 2, DType::f32), column = to.index(score, 3, DType::f32);
  return to.where(score, to.compare(CUDNN_POINTWISE_CMP_GE, row, column), of.masked);
}

DnnGraph forward_graph(const DnnAttentionProblem& p) {
  Builder to;
  const Tensors of(p);
  DnnTensor score = scores(to, p, of, p.has_lengths);
  score = behind_padding(to, of, score);
  score = up_to_diagonal(to, p.causal, of, score);
  const DnnTensor most = to.reduce_rows(CUDNN_REDUCE_TENSOR_MAX, score);
  const DnnTensor power =
      to.unary(CUDNN_POINTWISE_EXP, to.binary(CUDNN_POINTWISE_SUB, score, most));
  const DnnTensor total = to.reduce_rows(CUDNN_REDUCE_TENSOR_ADD, power);
  if (p.trains) {
    const DnnTensor logarithm = to.unary(CUDNN_POINTWISE_LOG, total);
    to.pointwise(CUDNN_POINTWISE_ADD, most, &logarithm, nullptr, of.log_sums);
  }
  const DnnTensor weights = to.between(p.dtype, score.dims);
  to.pointwise(CUDNN_POINTWISE_DIV, power, &total, nullptr, weights);
  to.multiply(weights, of.v, of.y, {.rows = of.of_queries(), .inner = of.of_keys()}, false);
  return std::move(to.graph);
}

DnnGraph backward_graph(const DnnAttentionProblem& p, bool direct) {
  Builder to;
  const Tensors of(p);
  DnnTensor dy = of.y, dq = of.q, dk = of.k, dv = of.v;
  dy.id = kDy;
  dq.id = kDq;
  dk.id = kDk;
  dv.id = kDv;
  // The mean of the gradients of a query's weights is that of dy times y.
  const DnnTensor shares = to.binary(CUDNN_POINTWISE_MUL, dy, of.y);
  const DnnTensor sum = to.reduce_rows(CUDNN_REDUCE_TENSOR_ADD, shares);
  const DnnTensor means = Builder::dense(kMeans, DType::f32, sum.dims), one = Builder::number(kOne);
  to.pointwise(CUDNN_POINTWISE_MUL, sum, &one, nullptr, means);
  // The weights again.
  DnnTensor score = scores(to, p, of, false);
  score = behind_padding(to, of, score);
  score = to.binary(CUDNN_POINTWISE_SUB, score, of.log_sums);
  score = up_to_diagonal(to, p.causal, of, score);
  const DnnTensor weights = to.unary(CUDNN_POINTWISE_EXP, score);
  to.multiply(to.transposed(weights, p.dtype), dy, dv,
              {.rows = of.of_keys(), .inner = of.of_queries()}, false);
  // Their gradients, and those of the scores.
  const DnnTensor of_weights = to.between(DType::f32, weights.dims);
  to.multiply(dy, Tensors::swapped(of.v), of_weights,
              {.rows = of.of_queries(), .columns = of.of_keys()}, false);
  DnnTensor of_scores = to.binary(CUDNN_POINTWISE_SUB, of_weights, means);
  of_scores = to.binary(CUDNN_POINTWISE_MUL, of_scores, weights);
  of_scores = to.binary(CUDNN_POINTWISE_MUL, of_scores, of.scale);
  to.multiply(to.transposed(of_scores, p.dtype), of.q, dk,
              {.rows = of.of_keys(), .inner = of.of_queries()}, false);
  const DnnTensor keys = to.transposed(Tensors::swapped(of.k), p.dtype);
  const Builder::Lengths lengths{.rows = of.of_queries(), .inner = of.of_keys()};
  if (direct) {
    to.multiply(of_scores, keys, dq, lengths, false);
  } else {
    const DnnTensor sums = Builder::dense(kDqSums, DType::f32, dq.dims);
    to.multiply(of_scores, keys, sums, lengths, false);
    to.pointwise(CUDNN_POINTWISE_IDENTITY, sums, nullptr, nullptr, dq);
  }
  return std::move(to.graph);
}

}  // namespace

std::string dnn_attention_refusal(const DnnAttentionProblem& p) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16)
    return text("cuDNN's fused attention computes in bf16 and f16, not in ", to_string(p.dtype));
  if (p.depth % kDepthUnit != 0 || p.value_depth % kDepthUnit != 0)
    return text("cuDNN's fused attention takes heads of a multiple of ", kDepthUnit,
                " values, not of ", p.depth, " and ", p.value_depth);
  if (p.batch == 0 || p.queries == 0 || p.keys == 0) return "there is nothing to compute";
  return {};
}

std::string dnn_attention_fault(size_t version, const DnnAttentionProblem& p,
                                DnnAttentionPass pass) {
  // Before kClearsSums, who runs a plan has to clear the sums of the gradient of q.
  constexpr size_t kClearsSums = 90600, kFaulty = 91000, kMended = 91002, kTakesRests = 91501;
  constexpr int64_t kTile = 128;
  if (version >= kFaulty && version < kMended)
    return "cuDNN 9.10.0 and 9.10.1 compute attention wrongly; use 9.10.2 or later";
  if (pass == DnnAttentionPass::forward) {
    return p.causal && p.queries == 1 && version < kMended
               ? "causal attention of one query takes cuDNN 9.10.2 or later"
               : "";
  }
  if (version < kClearsSums) return "gradients take cuDNN 9.6 or later";
  if (p.queries == 1 && p.keys == 1) return "cuDNN has no gradients of one query and one key";
  if (p.has_lengths && version < kMended)
    return "gradients behind lengths take cuDNN 9.10.2 or later";
  if (!p.has_lengths && p.keys % kTile != 0 && version < kTakesRests)
    return text("gradients of ", p.keys, " keys, which are no multiple of ", kTile,
                ", take cuDNN 9.15.1 or later");
  return {};
}

DnnGraph dnn_attention_graph(const DnnAttentionProblem& problem, DnnAttentionPass pass,
                             bool direct) {
  return pass == DnnAttentionPass::forward ? forward_graph(problem)
                                           : backward_graph(problem, direct);
}

std::string DnnAttentionWay::str() const {
  return text(pass == DnnAttentionPass::forward ? "forward " : "backward ", direct ? "direct " : "",
              candidate->name());
}

std::vector<DnnAttentionWay> dnn_attention_ways(DnnPlans& plans, const DnnAttentionProblem& problem,
                                                DnnAttentionPass pass, bool deterministic,
                                                std::string& why) {
  std::vector<DnnAttentionWay> ways;
  why = dnn_attention_refusal(problem);
  if (why.empty()) why = dnn_attention_fault(cudnnGetVersion(), problem, pass);
  if (!why.empty()) return ways;
  std::string first_reason;
  for (const bool direct : {false, true}) {
    if (direct && pass == DnnAttentionPass::forward) continue;
    // Blocks of keys are added in the order in which they are done.
    if (!direct && pass == DnnAttentionPass::backward && deterministic) continue;
    std::string reason;
    const DnnGraph graph = dnn_attention_graph(problem, pass, direct);
    for (auto& candidate : plans.of(graph, DnnPlans::Heuristics::usual, reason)) {
      if (deterministic && !candidate->notes().same_every_time) continue;
      ways.push_back({pass, direct, std::move(candidate)});
    }
    if (first_reason.empty()) first_reason = reason;
  }
  if (ways.empty())
    why = first_reason.empty() ? "cuDNN has no fused attention whose sums have one order"
                               : first_reason;
  return ways;
}

DnnAttention::DnnAttention(const DnnAttentionProblem& problem, const DnnAttentionWay& way)
    : problem_(problem), way_(way) {
  std::string why;
  plan_ = way.candidate->plan(why);
  if (plan_ == nullptr) throw Error(why);
  // Versions before 9.10 make a NaN of an infinite score.
  constexpr size_t kTakesInfinity = 91000;
  nothing_ = cudnnGetVersion() >= kTakesInfinity ? -std::numeric_limits<float>::infinity()
                                                 : std::numeric_limits<float>::lowest();
  if (way.pass == DnnAttentionPass::forward) return;
  const auto rows = static_cast<size_t>(problem.batch * problem.heads * problem.queries);
  sums_bytes_ = round_up(rows * sizeof(float));
  own_bytes_ = sums_bytes_;
  if (!way.direct)
    own_bytes_ += round_up(rows * static_cast<size_t>(problem.depth) * sizeof(float));
}

void DnnAttention::run(CudaBackend& backend, const DnnAttentionTensors& t, float scale,
                       void* scratch) {
  scale_ = scale;
  const auto pointer = [](const void* of) { return const_cast<void*>(of); };
  auto* const own = static_cast<std::byte*>(scratch);
  DnnPointers pointers = {
      {kQ, pointer(t.q)}, {kK, pointer(t.k)}, {kV, pointer(t.v)}, {kY, t.y}, {kScale, &scale_}};
  if (problem_.trains) pointers.emplace_back(kLogSums, t.log_sums);
  if (problem_.has_lengths) {
    pointers.emplace_back(kQueryLengths, pointer(t.query_lengths));
    pointers.emplace_back(kKeyLengths, pointer(t.key_lengths));
  }
  if (problem_.has_lengths || problem_.causal) pointers.emplace_back(kMasked, &nothing_);
  if (way_.pass == DnnAttentionPass::backward) {
    pointers.insert(pointers.end(), {{kOne, &one_},
                                     {kDy, pointer(t.dy)},
                                     {kDq, t.dq},
                                     {kDk, t.dk},
                                     {kDv, t.dv},
                                     {kMeans, own}});
    if (!way_.direct) pointers.emplace_back(kDqSums, own + sums_bytes_);
  }
  run_(backend.dnn(), *plan_, pointers, own + own_bytes_);
}

}  // namespace crema
