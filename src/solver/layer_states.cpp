// What layers carry from batch to batch, in the message of a state.
#include "crema/error.hpp"
#include "model/blob_message.hpp"
#include "solver/snapshot.hpp"

namespace crema {

std::map<std::string, std::vector<Tensor>> layer_states(const SolverState& state) {
  std::map<std::string, std::vector<Tensor>> states;
  for (const auto& record : state.layer_state()) {
    auto& tensors = states[record.layer()];
    for (const BlobProto& saved : record.state()) {
      const bool doubles = saved.double_data_size() > 0;
      tensors.emplace_back(blob_shape(saved), doubles ? DType::f64 : DType::f32);
      if (blob_count(saved) != tensors.back().count())
        throw Error("the state of layer '", record.layer(), "' has ", blob_count(saved),
                    " values for the shape ", blob_shape(saved).str(), "; the file is damaged");
      load_values(saved, tensors.back());
    }
  }
  return states;
}

void save_layer_states(const std::map<std::string, std::vector<Tensor>>& states,
                       SolverState& state) {
  for (const auto& [name, tensors] : states) {
    auto* record = state.add_layer_state();
    record->set_layer(name);
    for (const Tensor& tensor : tensors) save_values(tensor, *record->add_state());
  }
}

}  // namespace crema
