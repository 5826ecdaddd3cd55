// The layers of a net for inference, before what training alone needs is cut off.
#pragma once

#include "crema/net.hpp"

namespace google::protobuf {
class Message;
}

namespace crema {

class NetParameter;

/// Removes the fillers of parameters, which weights replace. Those of Deconvolution's bilinear
/// kernels stay, as nobody may have saved them.
void clear_fillers(google::protobuf::Message& message);
/// The layers of phase TEST. Data that only TRAIN has, in nets without tests, come before them.
NetParameter layers_of_inference(const NetParameter& net, const NetOptions& options,
                                 const NetParameter& training);

}  // namespace crema
