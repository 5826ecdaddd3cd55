// The engine "cudnn" of LSTM, GRU and RNN: cuDNN's RNN in f32, TF32, bf16 and f16. The library
// knows no sequences that begin in the middle of a batch: where the indicators have one, the passes
// of the layer compute, in f32.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "backend/cuda/dnn_plans.hpp"
#include "backend/cuda/dnn_rnn.hpp"
#include "crema/registry.hpp"
#include "layer_support/options.hpp"
#include "layer_support/tuning.hpp"
#include "layers/recurrent/recurrent_layer.hpp"

namespace crema {
namespace {

constexpr size_t kBoundary = 256;
constexpr std::array kAlgorithms = {DnnRnnAlgorithm::standard, DnnRnnAlgorithm::persistent,
                                    DnnRnnAlgorithm::persistent_small};

size_t round_up(size_t bytes) { return (bytes + kBoundary - 1) / kBoundary * kBoundary; }

/// Outputs are computed in f32, from h in f32.
DType type_of(const RecurrentLayer& layer) {
  return layer.has_outputs() ? layer.dtype() : layer.activations();
}

DnnRnnProblem problem_of(const RecurrentLayer& layer) {
  constexpr DnnCell kCells[] = {DnnCell::tanh, DnnCell::lstm, DnnCell::gru};
  return {.dtype = type_of(layer),
          .math = layer.arithmetic().math,
          .cell = kCells[static_cast<size_t>(layer.library_cell().value())],
          .steps = layer.steps(),
          .batch = layer.batch(),
          .inputs = layer.inputs(),
          .units = layer.units(),
          .directions = layer.directions(),
          .trains = layer.trains()};
}

/// Why the library cannot compute what the layer does; "" if it can.
std::string refusal(const RecurrentLayer& layer) {
  if (layer.dtype() != DType::f32)
    return text("it computes in f32 and 16 bits, not in ", to_string(layer.dtype()));
  if (!layer.library_cell()) return "cuDNN's GRU applies the reset gate behind the product";
  if (layer.has_static()) return "cuDNN's RNN has no static input";
  const int64_t rows = layer.steps() * layer.batch();
  if (rows == 0) return "there are no steps or no sequences";
  const int64_t most = rows * std::max(layer.inputs(), layer.width() * layer.directions());
  if (most > std::numeric_limits<int32_t>::max())
    return text("cuDNN's RNN takes at most 2^31 - 1 values, not ", most);
  std::string why;
  if (layer.arithmetic().deterministic) dnn_rnn_is_deterministic(why);
  return why;
}

/// A tensor of the device without a shape of its own.
class Space {
 public:
  void reserve(size_t bytes) { memory_.reshape(Shape{static_cast<int64_t>(bytes)}); }
  void* get(CudaBackend& backend) { return memory_.change<uint8_t>(&backend); }
  size_t bytes() const { return memory_.bytes(); }

 private:
  Tensor memory_{Shape{0}, DType::u8};
};

class CudnnRecurrent : public Kernel {
 public:
  CudnnRecurrent(RecurrentLayer& layer, DnnRnnAlgorithm algorithm)
      : Kernel(layer),
        layer_(layer),
        backend_(cuda(layer.context())),
        problem_(problem_of(layer)),
        detail_(to_string(algorithm)) {
    const DnnRnnProblem& p = problem_;
    // Where shapes follow from values, they may have no elements.
    if (p.steps * p.batch == 0) return;
    rnn_.emplace(backend_, p, algorithm);
    const size_t of_states =
        static_cast<size_t>(p.directions * p.batch * p.units) * size_of(p.dtype);
    for (size_t i = 0; i < number_of_states(); ++i) {
      states_[i].first.reserve(of_states);
      states_[i].last.reserve(of_states);
      if (!layer.trains() || !layer.exposes()) continue;
      states_[i].first_diff.reserve(of_states);
      states_[i].last_diff.reserve(of_states);
    }
    weights_.reserve(rnn_->weight_bytes());
    reserve_.reserve(rnn_->reserve_bytes());
    if (!layer.has_outputs()) return;
    const Shape all{p.steps, p.batch, p.directions * p.units};
    hidden_ = Tensor(all);
    if (layer.trains()) hidden_diff_ = Tensor(all);
    if (p.directions == 2) column_ = Tensor(Shape{p.steps, p.batch, p.units});
  }

  void forward(Blobs bottom, Blobs top) override {
    by_library_ = rnn_ && begins_at_first_step(bottom[1]->data);
    if (!by_library_) return forward_by_layer(bottom, top);
    const ComputeDevice device(backend_);
    const DType dtype = problem_.dtype;
    write_weights(device);
    DnnRnnForward pass{.x = bottom[0]->data.read_bytes(&backend_),
                       .weights = weights_.get(backend_)};
    // A repeated pass begins as the first one did.
    for (size_t i = 0; i < number_of_states() && !layer_.run().recomputing; ++i)
      layer_.first_states_to(device, bottom, static_cast<int>(i), dtype,
                             states_[i].first.get(backend_));
    pass.h_first = states_[0].first.get(backend_);
    pass.h_last = states_[0].last.get(backend_);
    if (layer_.states() == 2) {
      pass.c_first = states_[1].first.get(backend_);
      pass.c_last = states_[1].last.get(backend_);
    }
    pass.y = layer_.has_outputs() ? hidden_.overwrite_bytes(&backend_)
                                  : top[0]->data.overwrite_bytes(&backend_);
    rnn_->forward(pass, backend_.scratch(rnn_->workspace_bytes()), reserve_.get(backend_));
    for (size_t i = 0; i < number_of_states(); ++i)
      layer_.last_states_from(device, static_cast<int>(i), dtype, states_[i].last.get(backend_),
                              top);
    if (!layer_.has_outputs()) return;
    layer_.prepare_reference(bottom, top);
    for (int d = 0; d < layer_.directions(); ++d)
      layer_.outputs(device, d, column_of(hidden_, d), top[0]->data);
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!by_library_) return backward_by_layer(top, propagate, bottom);
    const ComputeDevice device(backend_);
    const DType dtype = problem_.dtype;
    const size_t first_state = bottom.size() - number_of_states();
    DnnRnnBackward pass{.x = bottom[0]->data.read_bytes(&backend_),
                        .h_first = states_[0].first.get(backend_),
                        .weights = weights_.get(backend_)};
    if (layer_.has_outputs()) {
      give_hidden_diffs(device, top);
      pass.y = hidden_.read_bytes(&backend_);
      pass.dy = hidden_diff_.read_bytes(&backend_);
    } else {
      pass.y = top[0]->data.read_bytes(&backend_);
      pass.dy = top[0]->diff.read_bytes(&backend_);
    }
    const void** const last_diffs[] = {&pass.h_last_diff, &pass.c_last_diff};
    void** const first_diffs[] = {&pass.h_first_diff, &pass.c_first_diff};
    if (layer_.states() == 2) pass.c_first = states_[1].first.get(backend_);
    for (size_t i = 0; i < number_of_states() && layer_.exposes(); ++i) {
      layer_.last_state_diffs_to(device, static_cast<int>(i), dtype,
                                 states_[i].last_diff.get(backend_), top);
      *last_diffs[i] = states_[i].last_diff.get(backend_);
      if (propagate[first_state + i]) *first_diffs[i] = states_[i].first_diff.get(backend_);
    }
    auto* const scratch = static_cast<std::byte*>(backend_.scratch(backward_scratch(propagate[0])));
    pass.dx = propagate[0] ? bottom[0]->diff.overwrite_bytes(&backend_) : scratch + dx_at();
    if (wants_gradients()) {
      pass.dweights = scratch + gradients_at();
      backend_.fill_zero(pass.dweights, rnn_->weight_bytes());
    }
    rnn_->backward(pass, scratch, reserve_.get(backend_));
    for (const Group& group : groups_) {
      if (group.parameter != nullptr && group.parameter->needs_gradient)
        add_pieces(device, group.pieces, dtype, pass.dweights, *group.parameter);
    }
    for (size_t i = 0; i < number_of_states() && layer_.exposes(); ++i) {
      if (*first_diffs[i] != nullptr)
        layer_.first_state_diffs_from(device, static_cast<int>(i), dtype, *first_diffs[i], bottom);
    }
  }

  BackwardReads backward_reads() const override { return {.bottom_data = {0, 1}, .top_data = {0}}; }
  size_t bytes() const override {
    size_t bytes = weights_.bytes() + reserve_.bytes() + hidden_.bytes() + hidden_diff_.bytes() +
                   column_.bytes();
    // What outputs() and hidden_diffs() keep in the layer.
    bytes += hidden_.bytes() * ((layer_.trains() ? 2 : 0) + (layer_.directions() == 2 ? 1 : 0));
    for (const State& state : states_)
      bytes += state.first.bytes() + state.last.bytes() + state.first_diff.bytes() +
               state.last_diff.bytes();
    return bytes;
  }
  void plan_scratch(ScratchPlan& plan) const override {
    if (!rnn_) return;
    plan.need(kDeviceScratch,
              layer_.trains() ? backward_scratch(layer_.propagates(0)) : rnn_->workspace_bytes());
  }
  std::string detail() const override { return detail_; }

 private:
  size_t number_of_states() const { return static_cast<size_t>(layer_.states()); }

  struct State {
    Space first, last, first_diff, last_diff;
  };
  /// The pieces of a parameter.
  struct Group {
    Parameter* parameter;
    std::vector<PlacedPiece> pieces;
  };

  // Scratch memory of backward: the library's, the gradients of the weights, and those of x where
  // nobody wants them.
  size_t gradients_at() const { return round_up(rnn_->workspace_bytes()); }
  size_t dx_at() const { return gradients_at() + round_up(rnn_->weight_bytes()); }
  size_t backward_scratch(bool wants_dx) const {
    const DnnRnnProblem& p = problem_;
    const auto of_x = static_cast<size_t>(p.steps * p.batch * p.inputs) * size_of(p.dtype);
    return dx_at() + (wants_dx ? 0 : of_x);
  }

  bool wants_gradients() const {
    return std::ranges::any_of(groups_, [](const Group& group) {
      return group.parameter != nullptr && group.parameter->needs_gradient;
    });
  }

  void find_places() {
    const LibraryCell cell = layer_.library_cell().value();
    for (const SpacePiece& piece :
         space_pieces(cell, layer_.directions(), layer_.inputs(), layer_.units())) {
      Parameter* const parameter = layer_.parameter(piece.of, piece.direction);
      auto group = std::ranges::find_if(groups_, [&](const Group& other) {
        return other.parameter == parameter && other.pieces[0].piece.direction == piece.direction;
      });
      if (group == groups_.end()) group = groups_.insert(group, Group{parameter, {}});
      group->pieces.push_back({piece, rnn_->place(piece.direction, piece.matrix, piece.is_bias,
                                                  piece.count, weights_.get(backend_))});
    }
  }

  /// The weights as the library reads them: anew in each pass of training, else when they changed.
  void write_weights(const ComputeDevice& device) {
    if (groups_.empty()) find_places();
    std::vector<uint64_t> versions;
    for (const Group& group : groups_) {
      if (group.parameter != nullptr) versions.push_back(group.parameter->values().version());
    }
    if (!layer_.trains() && versions == versions_) return;
    versions_ = std::move(versions);
    for (const Group& group : groups_)
      write_pieces(device, group.pieces, group.parameter, problem_.dtype, weights_.get(backend_));
  }

  /// The columns of a direction, dense.
  const Tensor& column_of(const Tensor& all, int direction) {
    if (layer_.directions() == 1) return all;
    const int64_t bytes = layer_.units() * int64_t{sizeof(float)};
    backend_.copy_rows({layer_.steps() * layer_.batch(), bytes, 2 * bytes, bytes},
                       static_cast<const std::byte*>(all.read_bytes(&backend_)) + direction * bytes,
                       column_.overwrite_bytes(&backend_));
    return column_;
  }

  void give_hidden_diffs(const ComputeDevice& device, Blobs top) {
    const int64_t bytes = layer_.units() * int64_t{sizeof(float)},
                  row = bytes * layer_.directions();
    auto* const to = static_cast<std::byte*>(hidden_diff_.overwrite_bytes(&backend_));
    for (int d = 0; d < layer_.directions(); ++d) {
      const Tensor& diffs = layer_.hidden_diffs(device, d, column_of(hidden_, d), *top[0]);
      backend_.copy_rows({layer_.steps() * layer_.batch(), bytes, bytes, row},
                         diffs.read_bytes(&backend_), to + d * bytes);
    }
  }

  // The passes of the layer, on copies in f32 where the net has 16 bits.

  bool is_narrow() const { return problem_.dtype != layer_.dtype(); }
  std::vector<Blob*> with_copy(Blobs blobs, Blob& copy) const {
    std::vector<Blob*> result(blobs.begin(), blobs.end());
    if (is_narrow()) {
      copy.reshape(blobs[0]->shape());
      result[0] = &copy;
    }
    return result;
  }

  void forward_by_layer(Blobs bottom, Blobs top) {
    const ComputeDevice device(backend_);
    const std::vector<Blob*> bottoms = with_copy(bottom, own_x_), tops = with_copy(top, own_h_);
    if (is_narrow()) copy_values(device, bottom[0]->data, own_x_.data);
    layer_.prepare_reference(bottoms, tops);
    layer_.run_forward(device, bottoms, tops);
    if (is_narrow()) copy_values(device, own_h_.data, top[0]->data);
  }
  void backward_by_layer(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
    const ComputeDevice device(backend_);
    const std::vector<Blob*> bottoms = with_copy(bottom, own_x_), tops = with_copy(top, own_h_);
    if (is_narrow()) copy_values(device, top[0]->diff, own_h_.diff);
    layer_.run_backward(device, tops, propagate, bottoms);
    if (is_narrow() && propagate[0]) copy_values(device, own_x_.diff, bottom[0]->diff);
  }

  RecurrentLayer& layer_;
  CudaBackend& backend_;
  const DnnRnnProblem problem_;
  std::optional<DnnRnn> rnn_;  // none without steps or sequences
  std::string detail_;
  std::array<State, 2> states_;  // h, and c of LSTM
  Space weights_, reserve_;
  std::vector<Group> groups_;
  std::vector<uint64_t> versions_;  // that weights_ has
  // Of a layer with outputs: h of all steps, and one direction of it.
  Tensor hidden_{Shape{0}}, hidden_diff_{Shape{0}}, column_{Shape{0}};
  bool by_library_ = true;  // the last forward
  Blob own_x_, own_h_;
};

class RecurrentCudnn : public Engine {
 public:
  std::vector<Option> options(const Layer& of, Blobs bottom, Blobs top,
                              std::string& why) const override {
    const auto& layer = static_cast<const RecurrentLayer&>(of);
    why = refusal(layer);
    if (!why.empty()) return {};
    CudaBackend& backend = cuda(layer.context());
    const DnnRnnProblem problem = problem_of(layer);
    const TunedProblem tuned{
        text("recurrent cudnn ", backend.dnn_plans().device().name(), " ", problem.family()),
        Shape{problem.steps, problem.batch}};
    bool measured = false;
    std::vector<TunedCandidate> candidates;
    for (const DnnRnnAlgorithm algorithm : kAlgorithms) {
      candidates.push_back({std::string(to_string(algorithm)), {}, [&, algorithm] {
                              measured = true;
                              return dnn_rnn_measure(backend, problem, algorithm);
                            }});
    }
    const auto [best, seconds, by] = choose_candidate(layer.context(), tuned, candidates);
    if (measured) backend.trim();
    try {
      const DnnRnn check(backend, problem, kAlgorithms[best]);
      if (check.workspace_bytes() > layer.arithmetic().workspace_limit) {
        why = text("it takes ", check.workspace_bytes(),
                   " bytes of scratch memory, and workspace_limit of the net is ",
                   layer.arithmetic().workspace_limit);
        return {};
      }
    } catch (const Error& error) {
      why = error.message();
      return {};
    }
    Option option = uniform_option(bottom, top, layer.dtype());
    option.bottoms[0].dtype = option.tops[0].dtype = problem.dtype;
    option.choice.push_back(candidates[best].key);
    if (seconds < std::numeric_limits<double>::infinity()) option.seconds = seconds;
    return {option};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs, Blobs) const override {
    const auto chosen = std::ranges::find_if(kAlgorithms, [&](DnnRnnAlgorithm algorithm) {
      return !option.choice.empty() && option.choice[0] == to_string(algorithm);
    });
    return std::make_unique<CudnnRecurrent>(
        static_cast<RecurrentLayer&>(layer),
        chosen != kAlgorithms.end() ? *chosen : DnnRnnAlgorithm::standard);
  }
};

}  // namespace

void register_recurrent_cuda(Registry& registry) {
  for (const char* type : {"LSTM", "GRU", "RNN"})
    registry.add_engine<RecurrentCudnn>(type, "cudnn", DeviceType::cuda);
}

}  // namespace crema
