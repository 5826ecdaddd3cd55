// InStep: whether data layers of a net that read in step give records that belong together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/context.hpp"
#include "crema/layer.hpp"

namespace crema {

/// Compares each data layer with the first one of as large batches, in the first epoch: their
/// numbers of records, the order in which they read them, and the keys of two databases. Warns
/// once of each pair. Sources that draw their samples are passed over.
///
/// Keys of two databases are of one record if they are the same, or begin with the same number,
/// where it is the record's place, or its line as in keys of convert-imageset. Paths in lists say
/// nothing: those of images and of their label maps differ.
class InStep {
 public:
  /// The layers have to outlive it. `net` names them in messages, or is "".
  InStep(const std::vector<Layer*>& layers, std::string net, Logger logger);

  /// To be called after each forward pass. Does nothing after the first epoch.
  void look();

 private:
  struct Pair {
    const Layer *one, *other;
    int64_t seen = 0;
    bool done = false;
  };
  void look(Pair& pair);
  void warn(Pair& pair, const std::string& what);

  std::string net_;
  Logger logger_;
  std::vector<Pair> pairs_;
};

}  // namespace crema
