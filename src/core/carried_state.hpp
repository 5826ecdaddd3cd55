// CarriesState: the interface, for the solver, of layers whose forward pass begins with what the
// pass before it left (Layer::carries_state()). Snapshots hold what they carry.
#pragma once

#include <string>
#include <vector>

#include "crema/tensor.hpp"

namespace crema {

class CarriesState {
 public:
  virtual ~CarriesState() = default;

  /// Whether it does so with the settings that it has.
  virtual bool carries() const { return true; }
  /// Whether it is a value for each sample of the batch, which a batch of another size does not
  /// begin with.
  virtual bool is_of_batch() const { return false; }
  /// Copies of what the next pass begins with, contiguous, of f32 or f64. Empty: it begins as the
  /// first one does.
  virtual std::vector<Tensor> carried() const = 0;
  /// Makes the next pass begin with what carried() returned. Error if it is that of another layer.
  virtual void carry(const std::vector<Tensor>& state) = 0;
  /// What is lost if no pass follows, in words for a warning. "" if nothing is.
  virtual std::string unfinished() const { return {}; }
};

}  // namespace crema
