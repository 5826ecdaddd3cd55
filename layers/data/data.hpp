// Data: batches of records from a database, or of images from files. See README.md.
#pragma once

#include "data/datum_layer.hpp"

namespace crema {

class DataLayer : public DatumLayer {
 public:
  explicit DataLayer(const LayerInit& init);

  /// Opens the source and looks at its first record.
  void setup(Blobs bottom, Blobs top) override;
};

}  // namespace crema
