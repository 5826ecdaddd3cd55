// Values that the caller gives in place of those in the files of solver and nets
// (SolverOptions::set).
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"
#include "model/source_map.hpp"

namespace crema {

class NetParameter;
class SolverParameter;

class Overrides {
 public:
  /// Error for a text that is not FIELD=VALUE.
  explicit Overrides(const std::vector<std::string>& texts);

  /// Whether there are any for nets.
  bool change_nets() const;
  /// Sentences about settings that later ones undo, as max_iter=100 does with max_epochs=2.
  std::vector<std::string> undone() const;
  /// Sets the solver's own fields. Errors of these then name the text in place of a line of the
  /// file. Returns lines for the log, such as "base_lr=0.01 in place of 0.1".
  std::vector<std::string> apply(SolverParameter& solver, SourceMap& source) const;
  /// Sets the fields of a net in layers that the rules put into a net of these options, before the
  /// other ones are left out. Errors of such a layer then name the text behind its place in the
  /// file. Returns lines likewise.
  std::vector<std::string> apply(NetParameter& net, SourceMap& source, NetOptions options);
  /// Error for one whose layer none of these nets has.
  void check_found() const;

 private:
  enum class Of : unsigned char { solver, nets, train_net, test_net };
  struct One {
    std::string text, path, value;  // the path without "net."
    Of of = Of::solver;
    bool found = false;
    std::vector<std::string> known;  // layers of the nets that it could be of
  };

  std::vector<One> all_;
};

}  // namespace crema
