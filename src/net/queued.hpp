// Passes that are queued on a device and not waited for. What came of them stands in the report of
// the device's run (core/device_run.hpp), which the caller reads later.
#pragma once

#include <functional>
#include <string>

#include "core/device_report.hpp"
#include "core/loss_scaler.hpp"
#include "crema/net.hpp"

namespace crema {

struct Action;
struct Plan;

/// As Net::forward(), without the losses: the report gets them. Waits only where a layer does.
/// `first_pass`: of an iteration.
void queue_forward(Net& net, bool first_pass);

/// An iteration of one pass: forward, backward, and `update`, which queues that of the parameters.
/// A device may record all of it, as one piece where nothing refuses: what the host computes for
/// the update has to be on its way before.
void queue_iteration(Net& net, const std::function<void()>& update);

/// Throws the Error of a failure in the report of an iteration. `later_passes` were queued behind
/// the one that failed; their batches did not take the place of that one's. The run state is that
/// of the pass. The failure is forgotten.
[[noreturn]] void throw_reported(Net& net, int iteration, const DeviceReport& report,
                                 int later_passes);

/// Tells the device seed, iteration and pass of the net's run state.
void tell_pass(const Plan& plan);
/// The factor on the losses of a net on a device, in the device's memory. Without
/// follow_gradients(), it is that of Net::set_loss_scale().
LossScaleState* device_loss_scale(Plan& plan);
LossScaleState* device_loss_scale(Net& net);
/// From now on, updates on the device change the factor by the gradients.
void follow_gradients(Net& net, const LossScaler& scaler);
/// An update has made the factor that: Net::loss_scale() gives it.
void note_loss_scale(Net& net, double scale);
/// The Net::set_loss_scale() of a plan.
void set_loss_scale(Plan& plan, double scale);
/// Whether the seed of a loss is written on the host: the layer reads it there, and the host knows
/// the factor.
bool is_host_seed(const Plan& plan, const Action& action);

/// Notes that records of the net leave out the solver's update.
void note_update_apart(Net& net, const std::string& why);

/// Behind a pass that was not queued by queue_forward(): Error for a value that a layer does not
/// take.
void check_values(Net& net);

}  // namespace crema
