// Helpers of tests that build whole nets.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"
#include "proto/net.pb.h"
#include "support/values.hpp"

namespace crema::test {

/// The prototxt text as a message.
NetParameter net_param(const std::string& text);

/// Fills every input with Philox numbers from [low, high); inputs named "label" with classes in
/// [0, classes).
void fill_inputs(Net& net, double low = -1, double high = 1, int classes = 3);

/// All parameters and all their gradients, one after the other.
std::vector<double> params_of(Net& net);
std::vector<double> gradients_of(Net& net);
/// The gradients of a forward and a backward pass over all layers, of inputs by fill_inputs().
std::vector<double> gradients_of_a_pass(Net& net);

/// Compares the gradients of an f64 training net with respect to its parameters, and to the inputs
/// that have one, with central differences of the loss. Every value when there are few, else a
/// sample. At a kink, such as a ReLU's at 0, where the differences on both sides disagree, the
/// gradient may be that of one side; a failure if this is so for more than a quarter of the
/// values.
void check_net_gradients(Net& net, double tolerance = 1e-6);

}  // namespace crema::test
