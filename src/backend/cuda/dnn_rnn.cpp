#include "backend/cuda/dnn_rnn.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "backend/cuda/dnn_descriptor.hpp"
#include "core/device_timer.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// An object of the library, destroyed with its owner.
template <class D, cudnnStatus_t (*kCreate)(D*), cudnnStatus_t (*kDestroy)(D)>
class Object {
 public:
  Object() { dnn_check(kCreate(&value_), "making a descriptor of an RNN"); }
  ~Object() { kDestroy(value_); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  D get() const { return value_; }

 private:
  D value_ = nullptr;
};

cudnnDataType_t type_of(DType dtype) {
  if (dtype == DType::bf16) return CUDNN_DATA_BFLOAT16;
  if (dtype == DType::f16) return CUDNN_DATA_HALF;
  if (dtype == DType::f32) return CUDNN_DATA_FLOAT;
  throw Error("cuDNN's RNN does not compute in ", to_string(dtype), " here");
}

cudnnMathType_t math_of(const DnnRnnProblem& problem) {
  if (problem.dtype != DType::f32) return CUDNN_TENSOR_OP_MATH;
  return problem.math == Math::strict ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

constexpr cudnnRNNAlgo_t kAlgorithms[] = {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC,
                                          CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};
constexpr cudnnRNNMode_t kModes[] = {CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU};

/// Of states: (directions, batch, units).
void describe_states(cudnnTensorDescriptor_t states, const DnnRnnProblem& p) {
  const int batch = static_cast<int>(p.batch), units = static_cast<int>(p.units);
  const int dims[] = {p.directions, batch, units}, strides[] = {batch * units, units, 1};
  dnn_check(cudnnSetTensorNdDescriptor(states, type_of(p.dtype), 3, dims, strides),
            "describing the states of an RNN");
}

}  // namespace

struct DnnRnn::Descriptors {
  Object<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor> rnn;
  Object<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>
      dropout;
  Object<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor> x,
      y;
  Object<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor> states;
};

std::string DnnRnnProblem::family() const {
  constexpr std::string_view kCells[] = {"tanh", "LSTM", "GRU"};
  return text(kCells[static_cast<size_t>(cell)], " ", to_string(dtype),
              dtype == DType::f32 ? text(" ", to_string(math)) : "", " ", inputs, " to ", units,
              directions == 2 ? ", both directions" : "", trains ? ", trains" : "", ", extents ");
}

std::string_view to_string(DnnRnnAlgorithm algorithm) {
  constexpr std::string_view kNames[] = {"standard", "persistent", "persistent small"};
  return kNames[static_cast<size_t>(algorithm)];
}

bool dnn_rnn_is_deterministic(std::string& why) {
  const char* const given = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  const std::string_view config = given != nullptr ? given : "";
  // One size of pieces: a product takes the same one every time.
  if (std::ranges::count(config, ':') == 2) return true;
  why =
      "sums of cuDNN's RNN have one order only with CUBLAS_WORKSPACE_CONFIG=:4096:2 in the "
      "environment; set that, or deterministic: false in the net";
  return false;
}

DnnRnn::DnnRnn(CudaBackend& backend, const DnnRnnProblem& p, DnnRnnAlgorithm algorithm)
    : backend_(backend), problem_(p), descriptors_(std::make_unique<Descriptors>()) {
  const cudnnHandle_t dnn = backend.dnn();
  const Descriptors& of = *descriptors_;
  const cudnnDataType_t type = type_of(p.dtype);
  dnn_check(cudnnSetDropoutDescriptor(of.dropout.get(), dnn, 0, nullptr, 0, 0),
            "describing an RNN without dropout");
  dnn_check(cudnnSetRNNDescriptor_v8(
                of.rnn.get(), kAlgorithms[static_cast<size_t>(algorithm)],
                kModes[static_cast<size_t>(p.cell)],
                p.cell == DnnCell::gru ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_SINGLE_INP_BIAS,
                p.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                type, CUDNN_DATA_FLOAT, math_of(p), static_cast<int32_t>(p.inputs),
                static_cast<int32_t>(p.units), static_cast<int32_t>(p.units), 1, of.dropout.get(),
                CUDNN_RNN_PADDED_IO_DISABLED),
            "describing an RNN");
  const std::vector<int> lengths(static_cast<size_t>(p.batch), static_cast<int>(p.steps));
  const auto describe = [&](cudnnRNNDataDescriptor_t data, int64_t values) {
    dnn_check(cudnnSetRNNDataDescriptor(data, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                        static_cast<int>(p.steps), static_cast<int>(p.batch),
                                        static_cast<int>(values), lengths.data(), nullptr),
              "describing the sequences of an RNN");
  };
  describe(of.x.get(), p.inputs);
  describe(of.y.get(), p.directions * p.units);
  describe_states(of.states.get(), p);
  dnn_check(cudnnGetRNNWeightSpaceSize(dnn, of.rnn.get(), &weight_bytes_),
            "asking for the weights of an RNN");
  dnn_check(cudnnGetRNNTempSpaceSizes(
                dnn, of.rnn.get(), p.trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                of.x.get(), &workspace_bytes_, p.trains ? &reserve_bytes_ : nullptr),
            "asking for the memory of an RNN");
}

DnnRnn::~DnnRnn() = default;

int64_t DnnRnn::place(int direction, int matrix, bool is_bias, int64_t count,
                      const void* space) const {
  const decltype(Descriptors::states) of_matrix, of_bias;
  void *matrix_at = nullptr, *bias_at = nullptr;
  dnn_check(
      cudnnGetRNNWeightParams(backend_.dnn(), descriptors_->rnn.get(), direction, weight_bytes_,
                              space, matrix, of_matrix.get(), &matrix_at, of_bias.get(), &bias_at),
      "asking for the place of weights of an RNN");
  constexpr int kMostDims = 8;
  std::array<int, kMostDims> dims{}, strides{};
  cudnnDataType_t type{};
  int number = 0;
  dnn_check(cudnnGetTensorNdDescriptor((is_bias ? of_bias : of_matrix).get(), kMostDims, &type,
                                       &number, dims.data(), strides.data()),
            "asking for the shape of weights of an RNN");
  int64_t found = 1;
  for (int i = 0; i < number; ++i) found *= dims[static_cast<size_t>(i)];
  const void* const at = is_bias ? bias_at : matrix_at;
  if (at == nullptr || found != count || type != type_of(problem_.dtype))
    throw Error("cuDNN has ", at == nullptr ? 0 : found, " values for ",
                is_bias ? "the bias of matrix " : "matrix ", matrix, " of an RNN, not ", count);
  return (static_cast<const char*>(at) - static_cast<const char*>(space)) /
         static_cast<int64_t>(size_of(problem_.dtype));
}

void DnnRnn::forward(const DnnRnnForward& pass, void* workspace, void* reserve) const {
  const Descriptors& of = *descriptors_;
  dnn_check(cudnnRNNForward(backend_.dnn(), of.rnn.get(),
                            problem_.trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                            nullptr, of.x.get(), pass.x, of.y.get(), pass.y, of.states.get(),
                            pass.h_first, pass.h_last, of.states.get(), pass.c_first, pass.c_last,
                            weight_bytes_, pass.weights, workspace_bytes_, workspace,
                            reserve_bytes_, problem_.trains ? reserve : nullptr),
            "running an RNN forward");
}

void DnnRnn::backward(const DnnRnnBackward& pass, void* workspace, void* reserve) const {
  const Descriptors& of = *descriptors_;
  dnn_check(cudnnRNNBackwardData_v8(
                backend_.dnn(), of.rnn.get(), nullptr, of.y.get(), pass.y, pass.dy, of.x.get(),
                pass.dx, of.states.get(), pass.h_first, pass.h_last_diff, pass.h_first_diff,
                of.states.get(), pass.c_first, pass.c_last_diff, pass.c_first_diff, weight_bytes_,
                pass.weights, workspace_bytes_, workspace, reserve_bytes_, reserve),
            "running an RNN backward");
  if (pass.dweights == nullptr) return;
  dnn_check(cudnnRNNBackwardWeights_v8(backend_.dnn(), of.rnn.get(), CUDNN_WGRAD_MODE_ADD, nullptr,
                                       of.x.get(), pass.x, of.states.get(), pass.h_first,
                                       of.y.get(), pass.y, weight_bytes_, pass.dweights,
                                       workspace_bytes_, workspace, reserve_bytes_, reserve),
            "making the gradients of an RNN");
}

double dnn_rnn_measure(CudaBackend& backend, const DnnRnnProblem& p, DnnRnnAlgorithm algorithm) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<void*> taken;
  const auto take = [&](size_t bytes) {
    taken.push_back(backend.allocate(std::max<size_t>(bytes, 1)));
    // Small ordinary numbers: zeros have other times, and so have values that are not finite.
    const int ordinary = p.dtype == DType::f16 ? 0x21 : 0x3c;
    cuda_check(cudaMemsetAsync(taken.back(), ordinary, bytes, backend.stream()), "cudaMemset");
    return taken.back();
  };
  double seconds = kNever;
  try {
    const DnnRnn rnn(backend, p, algorithm);
    const size_t size = size_of(p.dtype), rows = static_cast<size_t>(p.steps * p.batch);
    const size_t of_x = rows * static_cast<size_t>(p.inputs) * size;
    const size_t of_y = rows * static_cast<size_t>(p.directions * p.units) * size;
    const size_t of_states = static_cast<size_t>(p.directions * p.batch * p.units) * size;
    DnnRnnForward forward;
    forward.x = take(of_x);
    forward.h_first = take(of_states);
    forward.c_first = take(of_states);
    forward.weights = take(rnn.weight_bytes());
    forward.y = take(of_y);
    forward.h_last = take(of_states);
    forward.c_last = take(of_states);
    DnnRnnBackward backward{.x = forward.x,
                            .h_first = forward.h_first,
                            .c_first = forward.c_first,
                            .weights = forward.weights,
                            .y = forward.y};
    if (p.trains) {
      backward.dy = take(of_y);
      backward.dx = take(of_x);
      backward.dweights = take(rnn.weight_bytes());
    }
    void *const workspace = take(rnn.workspace_bytes()), *const reserve = take(rnn.reserve_bytes());
    const auto run = [&] {
      rnn.forward(forward, workspace, reserve);
      if (p.trains) rnn.backward(backward, workspace, reserve);
    };
    run();  // may load and compile
    constexpr int kRounds = 3, kRuns = 3;
    const std::unique_ptr<DeviceTimer> timer = backend.make_timer(2);
    for (int round = 0; round < kRounds; ++round) {
      timer->record(0);
      for (int i = 0; i < kRuns; ++i) run();
      timer->record(1);
      backend.synchronize();
      seconds = std::min(seconds, timer->milliseconds(0, 1) * 1e-3 / kRuns);
    }
  } catch (const Error&) {
    // Such as memory that is not there. A device that is out of order says so.
    backend.synchronize();
    seconds = kNever;
  }
  for (void* const memory : taken) backend.release(memory);
  return seconds;
}

}  // namespace crema
