// Data: batches of records from a database, or of images from files. See README.md.
#pragma once

#include "data/batches/datum_layer.hpp"

namespace crema {

class DataLayer : public ImageLayer {
 public:
  explicit DataLayer(const LayerInit& init);

  /// Opens the source and looks at its first record.
  void setup(Blobs bottom, Blobs top) override;

  bool labels_by_names() const override;
  ClassNames look_up_classes() const override;
};

}  // namespace crema
