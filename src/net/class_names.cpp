// Labels that are places of names of classes mean the same in tests as in training: data layers of
// phase TEST take the names of the training data.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/data_source.hpp"
#include "crema/registry.hpp"
#include "model/state_rules.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// Classes of training data, and the tops of the layer that reads them.
struct Candidate {
  std::vector<std::string> tops;
  ClassNames classes;
};

struct Candidates {
  std::vector<Candidate> all;
  std::string problem;  // why there is none, or not another
};

bool reads_folders(const LayerParameter& layer) {
  const auto backend = layer.data_param().backend();
  return layer.type() == "Data" &&
         (backend == DataParameter::FOLDER || backend == DataParameter::TAR);
}

/// Whether it takes a look at a whole tar file to know the classes.
bool lists_tar(const LayerParameter& layer) {
  const DataParameter& data = layer.data_param();
  return data.backend() == DataParameter::TAR && data.class_names().empty();
}

/// Whether the layer reads test data, whatever the stages.
bool is_for_tests(const LayerParameter& layer) {
  const auto tests = [](const NetStateRule& rule) {
    return rule.has_phase() && rule.phase() == TEST;
  };
  return (layer.has_phase() && layer.phase() == TEST) ||
         (layer.include_size() > 0 && std::ranges::all_of(layer.include(), tests));
}

/// Of the data layers of the net with the training data.
void add_layers(const Net& training, Candidates& found) {
  for (const Layer* layer : training.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr || source->class_names().empty()) continue;
    const auto& tops = layer->param().top();
    found.all.push_back({{tops.begin(), tops.end()}, source->look_up_classes()});
  }
}

/// Of the data layers that the phase excludes, those that name their classes. The classes of a tar
/// file cost a look at all of it: one alone is passed over where the weights name them.
void add_excluded(const Plan& plan, Candidates& found) {
  NetOptions training = plan.options;
  training.phase = Phase::train;
  const auto may_have_classes = [](const LeftOut& layer) {
    return layer.data && !is_for_tests(*layer.data);
  };
  const auto has_folders = [&](const LeftOut& layer) {
    return may_have_classes(layer) && reads_folders(*layer.data);
  };
  const bool told =
      !plan.trained_classes.names.empty() && std::ranges::count_if(plan.left_out, has_folders) == 1;
  const auto add = [&](bool in_this_state) {
    for (const LeftOut& layer : plan.left_out) {
      if (!may_have_classes(layer) || (told && lists_tar(*layer.data))) continue;
      if (in_state(*layer.data, training) != in_this_state) continue;
      try {
        const RunState run;
        const auto made = Registry::instance().make({.param = *layer.data,
                                                     .context = *plan.context,
                                                     .run = run,
                                                     .phase = Phase::train,
                                                     .dtype = plan.options.dtype});
        const DataSource* source = made->data_source();
        const bool has_classes = source != nullptr && source->labels_by_names();
        ClassNames classes = has_classes ? source->look_up_classes() : ClassNames();
        if (!classes.names.empty()) found.all.push_back({layer.tops, std::move(classes)});
      } catch (const Error& error) {
        // The training data need not be here. Where nothing else tells the classes, the error does
        // why they are unknown.
        found.problem = text("layer '", layer.name, "': ", error.what());
      }
    }
  };
  add(true);
  // Stages may exclude them, too.
  if (found.all.empty()) add(false);
}

/// The one that makes the same labels: by the name of the last top, else the only one.
std::optional<ClassNames> choose(const Candidates& found, const LayerParameter& layer) {
  const auto& tops = layer.top();
  for (const Candidate& candidate : found.all) {
    if (!tops.empty() && !candidate.tops.empty() && candidate.tops.back() == *tops.rbegin())
      return candidate.classes;
  }
  const auto is_first = [&](const Candidate& candidate) {
    return candidate.classes.names == found.all[0].classes.names;
  };
  if (found.all.empty() || !std::ranges::all_of(found.all, is_first)) return std::nullopt;
  return found.all[0].classes;
}

/// Error unless both have the same classes.
void check_all_same(const ClassNames& one, const ClassNames& other, const char* way_out) {
  check_same_classes(one, other, way_out);
  check_same_classes(other, one, way_out);
}

/// Adds to `labels` whose labels the tops of the node hold. Error if those of one top, or those
/// that a loss reads, have classes of different names.
void move_labels(const Node& node, const std::vector<ClassNames>& all,
                 IdVector<ValueId, std::vector<size_t>>& labels) {
  const Layer& layer = *node.layer;
  for (size_t t = 0; t < node.tops.size(); ++t) {
    std::vector<size_t> met;
    for (size_t b = 0; b < node.bottoms.size(); ++b) {
      if (layer.moves_values() && !layer.moves(static_cast<int>(b), static_cast<int>(t))) continue;
      const std::vector<size_t>& read = labels[node.bottoms[b]];
      met.insert(met.end(), read.begin(), read.end());
    }
    for (const size_t one : met) {
      check_all_same(
          all[met[0]], all[one],
          "labels that meet need one meaning: give both data layers the same folders of "
          "classes, or name a file with all classes in class_names of both; where they are "
          "labels of different tasks, each data layer may list its own");
    }
    // What others make of labels, such as losses, are no labels.
    if (layer.moves_values()) labels[node.tops[t]] = std::move(met);
  }
}

}  // namespace

void tell_classes(const Plan& plan, NodeId id) {
  const Node& node = plan.node(id);
  DataSource* source = node.layer->data_source();
  if (source == nullptr) return;
  if (plan.options.phase != Phase::test || node.layer->phase() != Phase::test) return;
  Candidates found;
  if (plan.options.share_params_with != nullptr) {
    add_layers(*plan.options.share_params_with, found);
  } else if (source->labels_by_names()) {
    // Labels without names cannot be compared, and a warning of that is worth no look at the data.
    add_excluded(plan, found);
  }
  std::optional<ClassNames> training = choose(found, node.layer->param());
  const ClassNames& weights = plan.trained_classes;
  // Of several data layers, the weights name the classes of one.
  const bool is_of_weights = std::ranges::any_of(found.all, [&](const Candidate& candidate) {
    return candidate.classes.names == weights.names;
  });
  if (training && !weights.names.empty()) {
    if (!is_of_weights)
      check_all_same(
          *training, weights,
          "test with the classes that the weights were trained on: the folders or the label map "
          "of their training, or a file with their names, in their order, in class_names of the "
          "data layers");
  } else if (!weights.names.empty()) {
    training = weights;
  }
  if (!training) {
    training.emplace();
    training->from = !found.problem.empty() ? found.problem
                     : !found.all.empty()
                         ? text(
                               "several data layers of the training net have classes, and none "
                               "of them the top '",
                               node.layer->param().top(node.layer->param().top_size() - 1), "'")
                         : "the net has no such data layer for training";
    // Layers of folders tell it themselves.
    if (!found.problem.empty() && !reads_folders(node.layer->param()))
      plan.context->log(
          Severity::warning,
          text("layer '", node.layer->name(), "': its classes are not compared with ",
               "those of the training data, which are unknown (", found.problem, ")"));
  }
  source->set_training_classes(*training);
}

void check_classes(const Plan& plan) {
  if (plan.options.phase != Phase::train) return;
  std::vector<ClassNames> all;
  IdVector<ValueId, std::vector<size_t>> labels(
      plan.graph->values.size());  // whose: indices into `all`
  for (const Node& node : plan.graph->nodes) {
    const DataSource* source = node.layer->data_source();
    if (source != nullptr && !source->class_names().empty()) {
      ClassNames classes = source->look_up_classes();
      if (classes.listed || node.tops.size() < 2) continue;
      labels[node.tops[1]].push_back(all.size());
      all.push_back(std::move(classes));
      continue;
    }
    in_node(node, [&] { move_labels(node, all, labels); });
  }
}

}  // namespace crema
