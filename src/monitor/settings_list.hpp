#pragma once

#include "proto/run.pb.h"

namespace crema {

class Net;
class NetParameter;
class SolverParameter;

/// RunInfo::settings: each field of the solver that is set, but for nets in the message, and each
/// of the layers of the net, but for name, bottoms, tops and rules.
void list_settings(const SolverParameter& solver, const Net& net, RunInfo& info);

/// The net as it is in its phase, as a message that builds it again: without layers that rules
/// leave out, without weights.
NetParameter resolved_net(const Net& net);

}  // namespace crema
