// A factor on the losses in backward, so that small gradients of 16-bit blobs do not become 0.
#pragma once

#include "crema/net.hpp"

namespace crema {

/// Net::backward() starts from each loss weight times `scale`, so that all gradients have this
/// factor; who uses them divides by it. It counts from the next backward pass on; at first it is 1.
/// Error unless it is positive and finite. For a net of a solver, call Solver::set_loss_scale().
void set_loss_scale(Net& net, double scale);
double loss_scale(const Net& net);

}  // namespace crema
