// One time step of LSTM, RNN and GRU, but for its products: the arrays of a step, the arithmetic of
// its elements (cells-inl.hpp) for numbers, and loops in f32 on vectors.
//
// An element is a row n in [0, N), a sequence of the batch, and a unit u in [0, H). Rows of sums,
// gates and their gradients have G values: of LSTM four blocks of H (input, forget and output gate,
// candidate), of RNN one, of GRU three (reset and update gate, candidate). Arrays are dense but for
// rows of hidden, which lie hidden_row apart. Pointers that may be null stand for zeros, or are
// results that are not wanted.
//
// Factors are `cont` of the layers: what a step takes from the one before it is multiplied by them.
// 0 masks, also NaN. Null: all are 1.
#pragma once

#include <cstdint>

#include "core/functor.hpp"

namespace crema {

enum class CellKind : uint8_t { lstm, rnn, gru, gru_gates, gru_candidate };

template <class T>
struct ForwardStep {
  int64_t units = 0;                  // H
  int64_t hidden_row = 0;             // from a row of hidden to the next
  const T* sums = nullptr;            // (N, G): of the input
  const T* more_sums = nullptr;       // (N, G), may be null: of the state. Of GruGatesCell (N, 2H),
                                      // of GruCandidateCell (N, H)
  const T* bias = nullptr;            // (G), may be null
  const T* recurrent_bias = nullptr;  // (H), GruCell only
  const T* of_sequence = nullptr;     // (N, G), may be null: sums of the static input
  const T* factor = nullptr;          // (N): on cell_before
  const T* next_factor = nullptr;     // (N): on next_hidden
  const T* cell_before = nullptr;     // (N, H), LSTM only
  const T* hidden_before = nullptr;   // (N, H), GRU only: times its factors
  T* gates = nullptr;                 // (N, G); may be sums. May be null but of GRU
  T* of_state = nullptr;     // (N, H), GRU only. GruCell: sum of the candidate, of the state
                             // alone; may be null. GruGatesCell: r * hidden_before
  T* cell = nullptr;         // (N, H), LSTM only
  T* hidden = nullptr;       // (N, H) with rows hidden_row apart; of RNN, may be sums
  T* next_hidden = nullptr;  // (N, H), may be null
};

template <class T>
struct BackwardStep {
  int64_t units = 0;
  int64_t hidden_row = 0;               // from a row of hidden_diff to the next
  const T* gates = nullptr;             // as forward wrote them; of RNN: hidden
  const T* factor = nullptr;            // (N): on cell_before
  const T* next_factor = nullptr;       // (N): on next_hidden_diff and kept_diff
  const T* cell_before = nullptr;       // (N, H), LSTM only
  const T* hidden_before = nullptr;     // (N, H), GRU only
  const T* of_state = nullptr;          // (N, H), GruCell only
  const T* hidden_diff = nullptr;       // (N, H) with rows hidden_row apart
  const T* next_hidden_diff = nullptr;  // (N, H), may be null: added to it
  const T* kept_diff = nullptr;         // (N, H), may be null: added too
  const T* cell_diff = nullptr;         // (N, H), LSTM only, may be null
  const T* of_state_diff = nullptr;     // (N, H), GruGatesCell only, may be null
  T* sum_diffs = nullptr;               // (N, G), of LSTM may be null
  T* recurrent_diffs = nullptr;         // (N, G) or (N, 2H), GRU only: of the state's sums
  T* candidate_diffs = nullptr;         // (N, H), GruCandidateCell only
  T* kept_before_diff = nullptr;        // (N, H), GRU only: of hidden_before beside the products;
                                        // may be kept_diff
  T* cell_before_diff = nullptr;        // (N, H), LSTM only, may be null or cell_diff
};

/// Reads and writes numbers: the last argument of compute() below.
template <class T>
struct NumberAccess {
  using Value = T;
  CREMA_FUNCTOR T load(const T* from) const { return *from; }
  CREMA_FUNCTOR void store(T value, T* to) const { *to = value; }
};

namespace cells {
#include "layers/recurrent/cells-inl.hpp"
}  // namespace cells
using cells::GruCandidateCell;
using cells::GruCell;
using cells::GruGatesCell;
using cells::LstmCell;
using cells::RnnCell;

/// A body for passes over the elements of a step.
template <class Cell, template <class> class Step, class T>
struct EachElement {
  Step<T> step;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    Cell::compute(step, i / step.units, i % step.units, NumberAccess<T>());
  }
};

/// The elements [begin, end) on vectors.
void compute_on_vectors(CellKind cell, const ForwardStep<float>& step, int64_t begin, int64_t end);
void compute_on_vectors(CellKind cell, const BackwardStep<float>& step, int64_t begin, int64_t end);

}  // namespace crema
