// A net of models/ as the text from which another one is made, with its comments.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "crema/shape.hpp"
#include "proto/net.pb.h"

namespace crema::tools {

class NetTemplate {
 public:
  NetTemplate() = default;
  /// The net for training of a model, as `crema models` finds it. Error for an unknown one.
  explicit NetTemplate(const std::string& model);

  const std::string& model() const { return model_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Shape of the input of its net for inference, with the batch; of rank 0 where there is none.
  Shape input() const;
  /// What its training does to pixels; empty for a model without data of its own.
  TransformationParameter transform() const;

  /// Puts other data layers in the place of its own.
  void set_data(const std::string& layers) { data_ = layers; }
  /// A layer that makes the scores of a SoftmaxWithLoss: its block.
  struct Scorer {
    size_t block = 0;
    std::string name;
    int64_t classes = 0;
    /// A Deconvolution with a group for each class: it enlarges the scores of others.
    bool enlarges = false;
  };
  /// In the order of the net. Several add up to the scores of one loss where a sum (Eltwise) is on
  /// the way. Error where a layer without weights makes them, as in no classifier.
  std::vector<Scorer> scorers() const;
  /// Makes them score so many classes.
  void set_classes(const Scorer& scorer, int64_t classes);

  size_t blocks() const { return blocks_.size(); }
  const LayerParameter& layer(size_t block) const { return blocks_[block].layer; }
  /// Changes `field: from` of the layer's text wherever it stands; Error where it does not.
  void set(size_t block, const std::string& field, const std::string& from, const std::string& to);
  /// Removes a message `field { ... }` of the layer's text.
  void remove_message(size_t block, const std::string& field);
  /// Puts settings before the end of the layer's text, or of its message `field` where that is
  /// given.
  void add(size_t block, const std::string& settings, const std::string& field = {});
  void remove(size_t block);
  /// Changes words of the comments between layers.
  void reword(const std::string& from, const std::string& to);
  void append(const std::string& layer);

  /// The text, with comments above the name.
  std::string prototxt(const std::string& name, const std::string& comments) const;

 private:
  void find_scorers(const std::string& blob, size_t end, std::map<size_t, Scorer>& found) const;
  struct Block {
    std::string before, text;  // what stands above the layer, and the layer
    LayerParameter layer;
  };
  void parse(Block& block) const;

  std::string model_, data_;
  std::filesystem::path folder_;
  std::vector<Block> blocks_;
  std::string after_;
};

}  // namespace crema::tools
