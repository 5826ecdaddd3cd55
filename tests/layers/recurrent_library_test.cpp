// What the engine "cudnn" of recurrent layers does beside the library: the weight space against the
// formulas that cuDNN documents, gradients from it, states, and which batches it may compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "layers/recurrent/recurrent_layer.hpp"
#include "layers/recurrent/weight_space.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"

namespace crema::test {
namespace {

using Values = std::vector<double>;

struct CellCase {
  const char* type;
  LibraryCell cell;
  int gates;
};
constexpr CellCase kCells[] = {
    {"LSTM", LibraryCell::lstm, 4}, {"GRU", LibraryCell::gru, 3}, {"RNN", LibraryCell::tanh, 1}};

constexpr int64_t kSteps = 4, kBatch = 3, kInputs = 5, kUnits = 6;

LayerCase layer_case(const std::string& type, bool both, bool exposes,
                     const Values& first_factors = {1, 0, 0.5}) {
  Values cont(kSteps * kBatch, 1.0);
  std::copy(first_factors.begin(), first_factors.end(), cont.begin());
  LayerCase c{
      .layer =
          text("layer { type: '", type, "' recurrent_param { num_output: ", kUnits,
               " weight_filler { type: 'uniform' min: -0.8 max: 0.8 } bias_filler { "
               "type: 'uniform' min: -0.5 max: 0.5 } ",
               both ? "bidirectional: true " : "", exposes ? "expose_hidden: true" : "", " } }"),
      .bottoms = {uniform({kSteps, kBatch, kInputs}, -2, 2), given({kSteps, kBatch}, cont)}};
  for (int i = 0; exposes && i < (type == "LSTM" ? 2 : 1); ++i) {
    c.bottoms.push_back(uniform({both ? 2 : 1, kBatch, kUnits}));
    ++c.tops;
  }
  return c;
}

RecurrentLayer& recurrent(LayerRun& run) { return dynamic_cast<RecurrentLayer&>(run.layer()); }

/// A space in which each piece has a place of its own, some elements behind the one before.
struct MadeUpSpace {
  std::map<Parameter*, std::vector<PlacedPiece>> pieces[2];  // by direction and parameter
  std::map<std::tuple<int, int, bool>, int64_t> places;
  int64_t size = 0;

  MadeUpSpace(RecurrentLayer& layer, LibraryCell cell) {
    for (const SpacePiece& piece :
         space_pieces(cell, layer.directions(), layer.inputs(), layer.units())) {
      size += 3;
      pieces[piece.direction][layer.parameter(piece.of, piece.direction)].push_back({piece, size});
      const bool is_new =
          places.insert({{piece.direction, piece.matrix, piece.is_bias}, size}).second;
      EXPECT_TRUE(is_new) << piece.matrix;
      size += piece.count;
    }
  }
  std::vector<float> written() {
    std::vector<float> space(static_cast<size_t>(size), std::nanf(""));
    for (auto& of_direction : pieces) {
      for (auto& [parameter, own] : of_direction)
        write_pieces(ComputeDevice(), own, parameter, DType::f32, space.data());
    }
    return space;
  }
};

/// cuDNN's documented formulas, a value at a time. W: matrix `gate`, R: matrix gates + gate.
class Documented {
 public:
  Documented(const CellCase& cell, const MadeUpSpace& made, const std::vector<float>& space,
             int direction)
      : cell_(cell), made_(made), space_(space), direction_(direction) {}

  /// h and c (batch, units) become those of the next step.
  void step(const double* x, Values& h, Values& c) const {
    const Values before = h;
    const int gates = cell_.gates;
    for (int64_t n = 0; n < kBatch; ++n) {
      const double *const of_x = x + n * kInputs, *const of_h = before.data() + n * kUnits;
      for (int64_t u = 0; u < kUnits; ++u) {
        const auto sum = [&](int gate) {
          return product(gate, u, of_x, kInputs) + bias(gate, u) +
                 product(gates + gate, u, of_h, kUnits) + bias(gates + gate, u);
        };
        double& state = h[static_cast<size_t>(n * kUnits + u)];
        if (cell_.cell == LibraryCell::tanh) {
          state = std::tanh(sum(0));
        } else if (cell_.cell == LibraryCell::lstm) {
          // 0, 1, 2, 3: input gate, forget gate, new memory, output gate.
          double& memory = c[static_cast<size_t>(n * kUnits + u)];
          memory = sigmoid(sum(1)) * memory + sigmoid(sum(0)) * std::tanh(sum(2));
          state = sigmoid(sum(3)) * std::tanh(memory);
        } else {
          // 0, 1, 2: reset gate, update gate, new memory.
          const double r = sigmoid(sum(0)), i = sigmoid(sum(1));
          const double memory = std::tanh(product(2, u, of_x, kInputs) + bias(2, u) +
                                          r * (product(5, u, of_h, kUnits) + bias(5, u)));
          state = (1 - i) * memory + i * of_h[u];
        }
      }
    }
  }

 private:
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  double product(int matrix, int64_t row, const double* x, int64_t columns) const {
    const int64_t at = made_.places.at({direction_, matrix, false}) + row * columns;
    double sum = 0;
    for (int64_t k = 0; k < columns; ++k)
      sum += static_cast<double>(space_[static_cast<size_t>(at + k)]) * x[k];
    return sum;
  }
  double bias(int matrix, int64_t row) const {
    const auto found = made_.places.find({direction_, matrix, true});
    if (found == made_.places.end()) return 0;
    return static_cast<double>(space_[static_cast<size_t>(found->second + row)]);
  }

  const CellCase& cell_;
  const MadeUpSpace& made_;
  const std::vector<float>& space_;
  int direction_;
};

TEST(RecurrentLibrary, TheWeightSpaceGivesWhatTheLayerComputes) {
  for (const CellCase& cell : kCells) {
    for (const bool both : {false, true}) {
      SCOPED_TRACE(text(cell.type, both ? " in both directions" : ""));
      const bool rnn = cell.cell == LibraryCell::tanh;
      LayerRun run(layer_case(cell.type, both, true));
      run.forward();
      RecurrentLayer& layer = recurrent(run);
      ASSERT_EQ(layer.library_cell(), cell.cell);
      MadeUpSpace made(layer, cell.cell);
      const std::vector<float> space = made.written();
      const int states = layer.states();
      std::vector<Values> last(static_cast<size_t>(states));
      for (int d = 0; d < layer.directions(); ++d) {
        const Documented documented(cell, made, space, d);
        Values state[2];
        for (int i = 0; i < states; ++i) {
          std::vector<float> first(static_cast<size_t>(layer.directions() * kBatch * kUnits));
          Blob* bottoms[4];
          for (int b = 0; b < 2 + states; ++b) bottoms[b] = &run.bottom_blob(b);
          layer.first_states_to(ComputeDevice(), Blobs(bottoms, static_cast<size_t>(2 + states)), i,
                                DType::f32, first.data());
          const auto begin = first.begin() + d * kBatch * kUnits;
          state[i].assign(begin, begin + kBatch * kUnits);
        }
        state[1].resize(kBatch * kUnits);
        const Values& x = run.bottom_values(0);
        for (int64_t i = 0; i < kSteps; ++i) {
          const int64_t t = d == 0 ? i : kSteps - 1 - i;
          documented.step(x.data() + t * kBatch * kInputs, state[0], state[1]);
          if (rnn) continue;  // its top is a function of h
          Values of_step;
          for (int64_t n = 0; n < kBatch; ++n) {
            const auto row =
                run.top(0).begin() + ((t * kBatch + n) * layer.directions() + d) * kUnits;
            of_step.insert(of_step.end(), row, row + kUnits);
          }
          expect_close(of_step, state[0], {1e-5, 1e-5}, text("step ", t));
        }
        for (int i = 0; i < states; ++i) {
          Values& all = last[static_cast<size_t>(i)];
          all.insert(all.end(), state[i].begin(), state[i].end());
        }
      }
      for (int i = 0; i < states; ++i)
        expect_close(run.top(1 + i), last[static_cast<size_t>(i)], {1e-5, 1e-5}, "last state");
    }
  }
}

TEST(RecurrentLibrary, GradientsOfTheSpaceAreThoseOfTheParameters) {
  for (const CellCase& cell : kCells) {
    SCOPED_TRACE(cell.type);
    LayerRun run(layer_case(cell.type, true, false));
    run.forward();
    run.clear_gradients();
    RecurrentLayer& layer = recurrent(run);
    MadeUpSpace made(layer, cell.cell);
    const std::vector<float> space = made.written();
    for (const int times : {1, 2}) {  // the first overwrites what was cleared
      for (auto& of_direction : made.pieces) {
        for (auto& [parameter, own] : of_direction) {
          if (parameter != nullptr)
            add_pieces(ComputeDevice(), own, DType::f32, space.data(), *parameter);
        }
      }
      for (int d = 0; d < 2; ++d) {
        for (const auto& [parameter, own] : made.pieces[d]) {
          if (parameter == nullptr) continue;
          for (int64_t i = 0; i < parameter->data.count(); ++i)
            EXPECT_EQ(parameter->gradient().at(i), times * parameter->data.at(i)) << i;
        }
      }
    }
  }
}

TEST(RecurrentLibrary, EachParameterIsInTheSpaceOnce) {
  for (const CellCase& cell : kCells) {
    std::map<SpaceParam, int64_t> counts;
    for (const SpacePiece& piece : space_pieces(cell.cell, 1, kInputs, kUnits))
      counts[piece.of] += piece.count;
    EXPECT_EQ(counts[SpaceParam::input_weights], cell.gates * kUnits * kInputs);
    EXPECT_EQ(counts[SpaceParam::recurrent_weights], cell.gates * kUnits * kUnits);
    EXPECT_EQ(counts[SpaceParam::bias], cell.gates * kUnits);
    EXPECT_EQ(counts[SpaceParam::recurrent_bias], cell.cell == LibraryCell::gru ? kUnits : 0);
  }
}

TEST(RecurrentLibrary, SpacesMayHave16Bits) {
  LayerRun run(layer_case("GRU", false, false));
  run.forward();
  RecurrentLayer& layer = recurrent(run);
  MadeUpSpace made(layer, LibraryCell::gru);
  for (const DType type : {DType::bf16, DType::f16}) {
    Tensor space(Shape{made.size}, type);
    for (auto& [parameter, own] : made.pieces[0]) {
      write_pieces(ComputeDevice(), own, parameter, type, space.overwrite_bytes());
      for (const PlacedPiece& placed : own) {
        for (int64_t i = 0; i < placed.piece.count; ++i) {
          const double value =
              parameter != nullptr ? parameter->data.at(placed.piece.first + i) : 0;
          EXPECT_NEAR(space.at(placed.at + i), value, std::abs(value) / 256);
        }
      }
    }
  }
}

// As the passes of the layer carry them.
TEST(RecurrentLibrary, StatesAreCarriedToTheNextPass) {
  for (const bool both : {false, true}) {
    const LayerCase c = layer_case("LSTM", both, false);
    LayerRun own(c), library(c);
    own.forward();
    library.forward();
    RecurrentLayer& layer = recurrent(library);
    Blob* bottoms[] = {&library.bottom_blob(0), &library.bottom_blob(1)};
    const int64_t row = kBatch * kUnits;
    for (int state = 0; state < 2; ++state) {
      const std::vector<Tensor> carried = recurrent(own).carried();
      std::vector<float> first(static_cast<size_t>(layer.directions() * row));
      layer.first_states_to(ComputeDevice(), bottoms, state, DType::f32, first.data());
      for (int64_t i = 0; i < std::ssize(first); ++i) {
        const double factor = c.bottoms[1].values[static_cast<size_t>(i / kUnits % kBatch)];
        const double expected = i < row ? factor * carried[static_cast<size_t>(state)].at(i) : 0;
        EXPECT_FLOAT_EQ(first[static_cast<size_t>(i)], static_cast<float>(expected)) << i;
      }
      std::vector<float> last(static_cast<size_t>(layer.directions() * row), 7);
      last[0] = static_cast<float>(state) + 3;
      layer.last_states_from(ComputeDevice(), state, DType::f32, last.data(), {});
      EXPECT_EQ(layer.carried()[static_cast<size_t>(state)].at(0), state + 3);
      EXPECT_EQ(layer.carried()[static_cast<size_t>(state)].at(row - 1), 7);
    }
  }
}

TEST(RecurrentLibrary, DiffsOfFirstStatesHaveTheirFactors) {
  LayerRun run(layer_case("GRU", true, true, {1, 0, 0.5}));
  run.forward();
  RecurrentLayer& layer = recurrent(run);
  Blob* bottoms[] = {&run.bottom_blob(0), &run.bottom_blob(1), &run.bottom_blob(2)};
  std::vector<float> diffs(2 * kBatch * kUnits, 2);
  diffs[kUnits] = std::nanf("");  // a sequence that begins
  layer.first_state_diffs_from(ComputeDevice(), 0, DType::f32, diffs.data(), bottoms);
  const Tensor& written = run.bottom_blob(2).diff;
  for (int64_t i = 0; i < written.count(); ++i) {
    const double factors[] = {1, 0, 0.5};
    const double factor = i < kBatch * kUnits ? factors[i / kUnits] : 1;
    EXPECT_EQ(written.at(i), 2 * factor) << i;
  }
}

TEST(RecurrentLibrary, SequencesMayBeginAtTheFirstStepAlone) {
  const auto of = [](const Values& values) {
    Tensor cont(Shape{3, 2});
    for (size_t i = 0; i < 6; ++i) cont.change<float>()[i] = static_cast<float>(values[i]);
    return begins_at_first_step(cont);
  };
  EXPECT_TRUE(of({1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(of({0, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(of({0.5, 0, 1, 1, 1, 1}));
  EXPECT_FALSE(of({0, 0, 1, 1, 1, 0}));
  EXPECT_FALSE(of({0, 0, 1, 0.5, 1, 1}));
  expect_error([&] { of({0, 0, 1, 2, 1, 1}); }, {"indicator 2", "step 1"});
}

TEST(RecurrentLibrary, TheOtherGruIsNoneOfTheLibrary) {
  LayerRun run({.layer = "layer { type: 'GRU' recurrent_param { num_output: 3 "
                         "linear_before_reset: false } }",
                .bottoms = {uniform({2, 2, 2}), given({2, 2}, {0, 0, 1, 1})}});
  EXPECT_FALSE(recurrent(run).library_cell());
}

}  // namespace
}  // namespace crema::test
