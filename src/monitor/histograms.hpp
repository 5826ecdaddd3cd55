// How values are spread, and the norm of gradients.
#pragma once

#include <string>

#include "crema/parameter_arena.hpp"
#include "proto/run.pb.h"
#include "proto/tensorboard/tensorboard.pb.h"

namespace crema {

/// Least, greatest, mean and deviation of `count` elements of an f32 or f64 tensor from `offset`
/// on, and how many there are in each of at most 64 intervals: those within four deviations of the
/// mean are of one width; the first and the last one reach to the least and the greatest value. An
/// interval has its left end; the last one has both. Values that are not finite are counted apart.
ValueHistogram histogram_of(const Tensor& values, int64_t offset, int64_t count);

/// As json_line() writes it, several times as fast.
std::string histogram_line(const ValueHistogram& histogram);
/// The same as TensorBoard has it.
tensorboard::HistogramProto histogram_event(const ValueHistogram& histogram);

/// The L2 norm of the gradients of the parameters that learn, before any clipping; they are
/// `scale` times as large in the arena. Calls ParameterArena::settle_gradients().
double gradient_norm(ParameterArena& arena, double scale);

}  // namespace crema
