// Lists of the images of a test set, compared with its data.
#pragma once

#include "crema/net.hpp"

namespace crema {

/// Error if a name_size_file of the net, of DetectionEvaluate or of the save_output_param of
/// DetectionOutput, is of other images than its AnnotatedData layer reads: of another number, or of
/// other names in their order. Names that are ids of a COCO data set are compared with files that
/// have their ids as names, as those of MS COCO do. Says nothing of nets with several such layers
/// or none, and of files that cannot be read: the layer that needs them does.
void check_named_sizes(const Net& net);

}  // namespace crema
