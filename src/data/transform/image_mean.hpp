// The mean image of a database, for transform_param { mean_file }.
#pragma once

#include <string>
#include <vector>

#include "crema/shape.hpp"
#include "data/images/image.hpp"
#include "data/records/convert_report.hpp"
#include "data/records/record_source.hpp"

namespace crema {

class BlobProto;  // proto/blob.proto

struct ImageMean {
  int64_t records = 0;
  int64_t deep = 0;                   // of more than 8 bits a channel, of which the upper 8 count
  Shape shape;                        // (C, H, W)
  std::vector<double> values;         // (C, H, W)
  std::vector<double> channel_means;  // (C)

  /// The published message of a mean image, in f32.
  void save(BlobProto& blob) const;
};

/// Sums in f64, which is exact for bytes; the result does not depend on the number of threads.
/// Compressed images are decoded to the channels of `color`. Error, with the key, at a record that
/// cannot be decoded, has another size than the first one, or a value that is not finite.
ImageMean image_mean(RecordSource& source, ColorMode color = ColorMode::as_stored,
                     const ConvertProgress& progress = {});

}  // namespace crema
