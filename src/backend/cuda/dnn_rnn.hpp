// LSTM, GRU and tanh RNN of one layer by cuDNN, in one or two directions: its algorithms, the sizes
// and places of its memory, and its passes. All sequences have all steps.
//
//   i, f, o = sigmoid(W x + R h + b), g = tanh(W x + R h + b), c = f c + i g, h = o tanh(c)
//   r, z = sigmoid(W x + R h + b),  n = tanh(W x + b + r (R h + b')),  h = (1 - z) n + z h
//   h = tanh(W x + R h + b)
//
// The weights of all gates lie in one piece of memory, the weight space. Where, the library says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "crema/arithmetic.hpp"
#include "crema/layout.hpp"

namespace crema {

enum class DnnCell : uint8_t { tanh, lstm, gru };

struct DnnRnnProblem {
  DType dtype = DType::f32;  // of all memory: f32, bf16 or f16. Sums are in f32
  Math math = Math::tf32;    // of f32
  DnnCell cell = DnnCell::lstm;
  int64_t steps = 0, batch = 0, inputs = 0, units = 0;
  int directions = 1;
  bool trains = false;

  /// All but steps and batch.
  std::string family() const;
};

/// How the steps run: as kernels of their own, in one kernel that keeps the recurrent weights in
/// registers, or in one for few units.
enum class DnnRnnAlgorithm : uint8_t { standard, persistent, persistent_small };
std::string_view to_string(DnnRnnAlgorithm algorithm);

/// Whether all sums of the library have one order: its products have none unless the environment
/// limits the workspace of cuBLAS. `why` then says how.
bool dnn_rnn_is_deterministic(std::string& why);

/// Memory of the device. States are (directions, batch, units).
struct DnnRnnForward {
  const void* x = nullptr;  // (steps, batch, inputs)
  const void *h_first = nullptr, *c_first = nullptr;
  const void* weights = nullptr;
  void* y = nullptr;  // (steps, batch, directions * units): of each step, h of all directions
  void *h_last = nullptr, *c_last = nullptr;
};
struct DnnRnnBackward {
  const void *x = nullptr, *h_first = nullptr, *c_first = nullptr, *weights = nullptr;
  const void* y = nullptr;  // of forward
  const void* dy = nullptr;
  const void *h_last_diff = nullptr, *c_last_diff = nullptr;  // null: zeros
  void* dx = nullptr;                                         // not null
  void *h_first_diff = nullptr, *c_first_diff = nullptr;      // null: not wanted
  void* dweights = nullptr;                                   // added to; null: not wanted
};

class DnnRnn {
 public:
  /// Error if the library cannot.
  DnnRnn(CudaBackend& backend, const DnnRnnProblem& problem, DnnRnnAlgorithm algorithm);
  ~DnnRnn();
  DnnRnn(const DnnRnn&) = delete;
  DnnRnn& operator=(const DnnRnn&) = delete;

  const DnnRnnProblem& problem() const { return problem_; }
  size_t weight_bytes() const { return weight_bytes_; }
  /// What forward leaves for backward.
  size_t reserve_bytes() const { return reserve_bytes_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Where matrix `matrix` of a direction or its bias begins in a weight space, in elements: the
  /// first half of the matrices is that of the input. Error unless it has `count` elements.
  int64_t place(int direction, int matrix, bool is_bias, int64_t count, const void* space) const;

  void forward(const DnnRnnForward& pass, void* workspace, void* reserve) const;
  /// Behind forward().
  void backward(const DnnRnnBackward& pass, void* workspace, void* reserve) const;

 private:
  struct Descriptors;

  CudaBackend& backend_;
  DnnRnnProblem problem_;
  std::unique_ptr<Descriptors> descriptors_;
  size_t weight_bytes_ = 0, reserve_bytes_ = 0, workspace_bytes_ = 0;
};

/// Seconds of all passes, on memory of its own; infinite if the library cannot.
double dnn_rnn_measure(CudaBackend& backend, const DnnRnnProblem& problem,
                       DnnRnnAlgorithm algorithm);

}  // namespace crema
