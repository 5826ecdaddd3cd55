// Engine: one way to compute the layers of a type. It describes what it can do (options) and makes
// what does it (Kernel); it holds no state of either. The registry has one object of each engine.
//
// options_of() asks all engines of a layer; make_kernel() makes the kernel of one of the options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema/blob.hpp"
#include "crema/kernel.hpp"
#include "crema/layout.hpp"
#include "crema/tail.hpp"

namespace crema {

struct EngineEntry;  // crema/registry.hpp

/// What the net requires of a layer beside its forward pass. Layer::require() sets it, before the
/// first options().
struct Requirements {
  /// One entry a bottom: whether backward has to write its diff. Empty means true for all.
  std::vector<bool> bottom_diffs = {};
  /// The diffs of the tops are read after backward, for instance by the caller. If false, backward
  /// may overwrite them.
  bool top_diffs_stay = true;
  /// Operations on the top that Layer::accepts() allowed. The bottoms that they add follow the
  /// layer's own bottoms.
  Tail tail = {};
};

/// One way to run a layer in its present shapes.
struct Option {
  std::vector<Layout> bottoms, tops;    // one entry for each bottom and each top
  const EngineEntry* engine = nullptr;  // null: the reference
  /// The choices of the engine (such as names of primitives), for its make(), which takes what was
  /// measured.
  std::vector<std::string> choice = {};
  double seconds = 0;  // forward, plus backward if the layer trains; 0: not measured
};

/// An option with all bottoms in format `from` and all tops in format `to`, of one type. Blobs of a
/// rank below 3 are contiguous.
Option uniform_option(Blobs bottom, Blobs top, DType dtype, Format from = Format::contiguous,
                      Format to = Format::contiguous);

class Engine {
 public:
  virtual ~Engine() = default;

  /// The layouts in which the engine can run the layer's present shapes. Empty if it cannot run
  /// them; `why` is then set to the reason.
  virtual std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                                      std::string& why) const = 0;
  /// Whether its kernels can apply a tail that Layer::accepts(). The net fuses what all engines of
  /// the device accept.
  virtual bool accepts(const Layer& /*layer*/, const Tail& /*tail*/) const { return true; }
  /// The kernel of an option that options() returned. The bottoms and tops have the layouts of that
  /// option. Behind a layer whose tops are TopShapes::from_values, the option is that of the
  /// bounds, and the shapes are smaller ones.
  virtual std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs bottom,
                                       Blobs top) const = 0;
};

/// All options of a layer for its present shapes, best engine first. The message (`engine:`) or the
/// context may force one engine; then only options of that engine are returned. A context's engine
/// is ignored by types that do not have it. Error if the forced engine does not exist, or cannot
/// run this problem.
std::vector<Option> options_of(const Layer& layer, Blobs bottom, Blobs top);
/// Whether the layer and all engines that it may run on accept the tail.
bool accepts_tail(const Layer& layer, const Tail& tail);
/// The kernel of one of them. The bottoms and tops have its layouts.
std::unique_ptr<Kernel> make_kernel(Layer& layer, const Option& option, Blobs bottom, Blobs top);
/// "reference", or the registered name.
std::string engine_name(const Option& option);

}  // namespace crema
