// How many images `crema classify` names right, where their folders or a list say what they are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/image_net.hpp"

namespace crema::tools {

class KnownClasses {
 public:
  /// The class of an image is the label in its line of --list, or the folder that it was found in,
  /// where one of `names` is that folder's name, or is the only one to begin with it and a blank,
  /// as those of synset_words.txt. Warns of other folders beside such ones. Error for a label that
  /// is none of the `classes`.
  KnownClasses(const NamedImages& images, const std::vector<std::string>& names, int64_t classes);

  /// None where nothing says it.
  std::optional<int64_t> of(const ReadImage& image) const;
  /// `ranked`: the best classes, the best first.
  void count(const ReadImage& image, const std::vector<int>& ranked);
  /// Logs how many were right, of all and of each class, and the first that were not.
  void report() const;

 private:
  struct Counts {
    int64_t images = 0, right = 0;
  };
  std::string name(int64_t label) const;

  std::vector<std::string> names_;
  int64_t classes_;
  std::map<size_t, int64_t> labels_;  // by place
  std::map<int64_t, Counts> counts_;  // by label
  int64_t in_top_ = 0;
  std::vector<std::string> mistakes_;  // the first of them
};

}  // namespace crema::tools
