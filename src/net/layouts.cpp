// Chooses the layout (element type and memory format) of every tensor, and adds conversions between
// layers whose layouts differ.
//
// Values that the caller can read are contiguous and of NetOptions::dtype. Values that must be
// exact (Layer::is_exact_bottom, is_exact_top, moves_values) have that type too. All other values
// have the type of the net's activations and the format of the layer that makes them.
//
// Each layer returns options: layouts of its bottoms and tops, and seconds. A layer whose time
// depends on the format, such as a convolution, is free: the search tries its options. Every other
// layer takes the option that needs the fewest conversions of its bottoms. The cost of an
// assignment is the sum of the measured seconds and of the estimated seconds of the conversions.
//
// The search starts from the best assignment with one format for all free layers. It then changes
// the option of one free layer at a time, as long as that lowers the cost. The result is not always
// the optimum. It is good in practice, because all layers between two free layers follow the first
// one.
#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <sstream>

#include "core/tuner.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "net/conversion.hpp"
#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Bytes a second that a conversion reads and writes, by a CPU and by a GPU. Only the order of
/// magnitude matters.
constexpr double kConversionRate = 12e9, kDeviceConversionRate = 1e12;

/// The type that a value must have, and whether it must be contiguous.
struct Demand {
  DType dtype = DType::f32;
  bool contiguous = false;
};

/// The values that must be exact, because the layer that makes them or one that reads them says so,
/// in front of layers that move values and behind them too.
IdVector<ValueId, bool> exact_values(const Plan& plan) {
  const Graph& graph = *plan.graph;
  IdVector<ValueId, bool> made(graph.values.size()), read(graph.values.size());
  /// Calls pass(bottom, top) for the values that the node moves.
  const auto each_move = [](const Node& node, const auto& pass) {
    const Layer& layer = *node.layer;
    if (!layer.moves_values()) return;
    for (size_t b = 0; b < node.bottoms.size(); ++b) {
      for (size_t t = 0; t < node.tops.size(); ++t) {
        if (layer.moves(static_cast<int>(b), static_cast<int>(t)))
          pass(node.bottoms[b], node.tops[t]);
      }
    }
  };
  for (const Node& node : graph.nodes) {
    for (size_t t = 0; t < node.tops.size(); ++t) {
      made[node.tops[t]] = node.layer->is_exact_top(static_cast<int>(t));
    }
    each_move(node, [&](ValueId bottom, ValueId top) { made[top] = made[top] || made[bottom]; });
  }
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph[NodeId(n)];
    for (size_t b = 0; b < node.bottoms.size(); ++b) {
      const ValueId bottom = node.bottoms[b];
      read[bottom] = read[bottom] || node.layer->is_exact_bottom(static_cast<int>(b));
    }
    each_move(node, [&](ValueId bottom, ValueId top) {
      read[bottom] = read[bottom] || made[top] || read[top];
    });
  }
  for (const ValueId id : graph.value_ids()) made[id] = made[id] || read[id];
  return made;
}

Demand demand_of(const Plan& plan, ValueId id, bool exact) {
  if (plan.shows(plan.value(id))) return {plan.options.dtype, true};
  return {exact ? plan.options.dtype : plan.activations, false};
}

/// The layout of a value with that demand if the option of its layer makes `made`.
Layout settle(const Demand& demand, const Layout& made) {
  return {demand.dtype, demand.contiguous ? Format::contiguous : made.format};
}

/// Whether type and format are the same. The layouts of options have the device of their engine.
bool same(const Layout& a, const Layout& b) { return a.dtype == b.dtype && a.format == b.format; }

bool same_layouts(const std::vector<Layout>& a, const std::vector<Layout>& b) {
  return std::ranges::equal(a, b, same);
}

class Chooser {
 public:
  /// One option for each layer; null: none, or any.
  using Options = IdVector<NodeId, const Option*>;

  Chooser(const Plan& plan, size_t reach) : plan_(plan), graph_(*plan.graph), reach_(reach) {
    const IdVector<ValueId, bool> exact = exact_values(plan);
    for (const ValueId id : graph_.value_ids()) {
      demands_.push_back(demand_of(plan, id, exact[id]));
    }
    collect();
  }

  const Demand& demand(ValueId id) const { return demands_[id]; }

  /// The option of each layer: the choices of the tuner if it has them, else by search.
  Options pick() {
    const std::string net = free_.empty() ? "" : choice_key();
    Options picked = remembered(net);
    if (!picked.empty()) return picked;
    picked = search();
    for (const NodeId id : free_) {
      plan_.context->tuner().choose(choice_key(net, id), describe(*picked[id]));
    }
    return picked;
  }

 private:
  double conversion_seconds(ValueId value, const Layout& from, const Layout& to) const {
    const double bytes = static_cast<double>(plan_.blob(value).data.count()) *
                         static_cast<double>(size_of(from.dtype) + size_of(to.dtype));
    const double rate = plan_.context->on_gpu() ? kDeviceConversionRate : kConversionRate;
    return bytes * (plan_.trains ? 2 : 1) / rate;
  }

  /// Sets `picked` to an option for each node and returns the seconds of the assignment. Nodes that
  /// have none in `forced` take the cheapest one, in the order of the net.
  double evaluate(const Options& forced, Options& picked) const {
    IdVector<ValueId, Layout> layouts(graph_.values.size());
    // All readers that need a value in the same layout share one conversion.
    IdVector<ValueId, std::vector<Layout>> converted(graph_.values.size());
    double total = 0;
    for (const NodeId id : graph_.node_ids()) {
      const auto& options = options_[id];
      if (options.empty()) continue;
      const Node& node = plan_.node(id);
      const auto is_there = [&](ValueId bottom, const Layout& wanted) {
        const auto& made = converted[bottom];
        return same(layouts[bottom], wanted) ||
               std::ranges::any_of(made, [&](const Layout& l) { return same(l, wanted); });
      };
      const auto seconds_of = [&](const Option& option) {
        double seconds = option.seconds;
        for (size_t i = 0; i < node.bottoms.size(); ++i) {
          if (is_there(node.bottoms[i], option.bottoms[i])) continue;
          seconds +=
              conversion_seconds(node.bottoms[i], layouts[node.bottoms[i]], option.bottoms[i]);
        }
        for (size_t t = 0; t < node.tops.size(); ++t) {
          const Layout wanted = settle(demands_[node.tops[t]], option.tops[t]);
          if (same(wanted, option.tops[t])) continue;
          seconds += conversion_seconds(node.tops[t], option.tops[t], wanted);
        }
        return seconds;
      };
      const Option* best = forced[id];
      double best_seconds = std::numeric_limits<double>::infinity();
      for (const Option& other : best ? std::span(best, 1) : std::span<const Option>(options)) {
        const double seconds = seconds_of(other);
        if (seconds < best_seconds) {
          best_seconds = seconds;
          best = &other;
        }
      }
      total += best_seconds;
      picked[id] = best;
      const Option& option = *best;
      for (size_t i = 0; i < node.bottoms.size(); ++i) {
        if (!is_there(node.bottoms[i], option.bottoms[i])) {
          converted[node.bottoms[i]].push_back(option.bottoms[i]);
        }
      }
      for (size_t t = 0; t < node.tops.size(); ++t) {
        layouts[node.tops[t]] = settle(demands_[node.tops[t]], option.tops[t]);
        if (layouts[node.tops[t]].format != option.tops[t].format && !plan_.trains &&
            layouts[node.tops[t]].dtype == option.tops[t].dtype) {
          converted[node.tops[t]].push_back(option.tops[t]);
        }
      }
    }
    return total;
  }

  void collect() {
    options_.resize(graph_.nodes.size());
    for (const NodeId id : graph_.node_ids()) {
      const Node& node = graph_[id];
      if (!node.scheduled() || id.index() >= reach_) continue;
      // Of several options with the same layouts, keep the fastest one if measured, else the first.
      std::vector<Option>& distinct = options_[id];
      for (Option& option : in_node(node, [&] {
             return options_of(plan_.layer(id), plan_.planned_bottoms(id), plan_.tops[id]);
           })) {
        const auto like = std::ranges::find_if(distinct, [&](const Option& other) {
          return same_layouts(other.bottoms, option.bottoms) &&
                 same_layouts(other.tops, option.tops);
        });
        if (like == distinct.end()) {
          distinct.push_back(std::move(option));
        } else if (option.seconds > 0 && like->seconds > 0 && option.seconds < like->seconds) {
          *like = std::move(option);
        }
      }
      // Where an engine of a device can run, the host would be slower than any conversion says.
      const auto is_reference = [](const Option& o) { return o.engine == nullptr; };
      if (plan_.context->on_gpu() && !std::ranges::all_of(distinct, is_reference))
        std::erase_if(distinct, is_reference);
      // If some options were measured, remove the others: engines do not measure slow candidates.
      const auto is_measured = [](const Option& o) { return o.seconds > 0; };
      if (std::ranges::any_of(distinct, is_measured))
        std::erase_if(distinct, std::not_fn(is_measured));
      in_node(node, [&] {
        if (distinct.empty()) throw Error("offers no layout to run in");
        for (const Option& option : distinct) {
          if (option.bottoms.size() != node.bottoms.size() ||
              option.tops.size() != node.tops.size())
            throw Error("offers layouts for ", option.bottoms.size(), " bottoms and ",
                        option.tops.size(), " tops, but has ", node.bottoms.size(), " and ",
                        node.tops.size());
        }
      });
      const auto changes = [](const Option& o) {
        return o.seconds > 0 ||
               (!o.bottoms.empty() && !o.tops.empty() && o.bottoms[0].format != o.tops[0].format);
      };
      if (distinct.size() > 1 && std::ranges::any_of(distinct, changes)) {
        free_.push_back(id);
      }
    }
  }

  /// Writes all that determines the computation of a node, without names. For a data source, only
  /// the shapes of its tops: a resumed run may read the same data from another path.
  void write_problem(NodeId id, std::ostream& out) const {
    const Node& node = graph_[id];
    const Layer& layer = *node.layer;
    out << layer.type() << ' '
        << (node.scheduled() ? -1 : static_cast<int>(node.fused_into.index())) << ' '
        << node.needs_backward << ' ';
    for (bool propagate : node.propagate) out << propagate;
    if (node.scheduled()) {
      for (const Blob* blob : plan_.planned_bottoms(id)) out << ' ' << blob->shape().str();
      out << " >";
      for (const Blob* blob : plan_.tops[id]) out << ' ' << blob->shape().str();
    }
    for (const auto& parameter : layer.params()) {
      out << ' ' << parameter->shape().str() << (parameter->needs_gradient ? " learns" : "");
    }
    if (layer.is_source()) return;
    LayerParameter settings = layer.param();
    settings.clear_name();
    settings.clear_bottom();
    settings.clear_top();
    settings.clear_param();
    settings.clear_loss_weight();
    settings.clear_propagate_down();
    settings.clear_include();
    settings.clear_exclude();
    out << ' ' << settings.SerializeAsString();
  }

  /// The key of the choices in the tuner. Choices change rounding, so a resumed run must make the
  /// same ones. A choice depends on those of other layers, so the key covers the whole net.
  std::string choice_key() const {
    std::ostringstream problems, key;
    problems << to_string(plan_.options.dtype) << ' ' << to_string(plan_.activations) << ' '
             << plan_.trains;
    if (plan_.context->on_gpu()) {
      problems << ' ' << to_string(plan_.arithmetic.math) << ' ' << plan_.arithmetic.deterministic
               << ' ' << plan_.arithmetic.workspace_limit;
    }
    for (const NodeId id : graph_.node_ids()) {
      if (id.index() < reach_) write_problem(id, problems << '\n');
    }
    key << "formats of net " << std::hex << stream_id(problems.str());
    return key.str();
  }

  std::string choice_key(const std::string& net, NodeId id) const {
    return text(net, ", layer ", id.index(), " ", plan_.node(id).layer->name());
  }

  /// An option as a text that is valid in another build too, which may have other engines.
  static std::string describe(const Option& option) {
    const auto list = [](const std::vector<Layout>& layouts) {
      std::vector<std::string> texts;
      for (const Layout& layout : layouts) texts.push_back(to_string(layout));
      return joined(texts, ",");
    };
    return text(list(option.bottoms), ">", list(option.tops), "@",
                option.engine != nullptr ? option.engine->name : "reference");
  }

  /// The options that the tuner has for all free nodes; empty if one is missing.
  Options remembered(const std::string& net) const {
    Options forced(graph_.nodes.size());
    for (const NodeId id : free_) {
      std::string choice;
      if (!plan_.context->tuner().chosen(choice_key(net, id), choice)) return {};
      const auto& options = options_[id];
      const auto found = std::ranges::find(options, choice, describe);
      if (found == options.end()) return {};
      forced[id] = &*found;
    }
    Options picked(graph_.nodes.size());
    evaluate(forced, picked);
    return picked;
  }

  Options search() const {
    Options best(graph_.nodes.size()), picked = best;
    double best_seconds = std::numeric_limits<double>::infinity();
    for (Format uniform :
         {Format::blocked16, Format::blocked8, Format::channels_last, Format::contiguous}) {
      Options forced(graph_.nodes.size());
      for (const NodeId id : free_) {
        const Option*& choice = forced[id];
        for (const Option& option : options_[id]) {
          if (option.tops.empty() || option.tops[0].format != uniform) continue;
          if (choice == nullptr || option.seconds < choice->seconds) choice = &option;
        }
      }
      const double seconds = evaluate(forced, picked);
      if (seconds < best_seconds) {
        best_seconds = seconds;
        best = picked;
      }
    }
    Options forced(graph_.nodes.size());
    for (const NodeId id : free_) forced[id] = best[id];
    for (bool better = true; better;) {
      better = false;
      for (const NodeId id : free_) {
        const Option* keep = forced[id];
        for (const Option& option : options_[id]) {
          forced[id] = &option;
          const double seconds = evaluate(forced, picked);
          if (seconds < best_seconds * (1 - 1e-6)) {
            best_seconds = seconds;
            best = picked;
            keep = &option;
            better = true;
          }
        }
        forced[id] = keep;
      }
    }
    return best;
  }

  const Plan& plan_;
  const Graph& graph_;
  size_t reach_;  // of the program
  IdVector<ValueId, Demand> demands_;
  IdVector<NodeId, std::vector<Option>> options_;  // empty: fused into another, or left out
  std::vector<NodeId> free_;                       // nodes whose options the search tries
};

/// Adds conversion nodes and the values that they make or read.
class Conversions {
 public:
  Conversions(const Plan& plan, Program& program) : plan_(plan), program_(program) {}

  /// The value that holds `value` in `layout`. Appends a conversion to the order, so that it runs
  /// directly before its first reader, unless there is one already.
  ValueId converted(ValueId value, const Layout& layout) {
    for (const ValueId made : IdRange<ValueId>(program_.values.size())) {
      if (program_[made].origin != value) continue;
      // The top of a layer before its conversion may be used only if its type is the same (else it
      // was not rounded), the net does not train (else its gradient would bypass the value that
      // the caller can read), and the caller cannot write the value and run the reader alone.
      const bool serves = program_[program_[made].maker].is_conversion() ||
                          (layout.dtype == program_[value].blob->data.dtype() && !plan_.trains &&
                           !plan_.options.keep_all);
      if (serves && same(program_[made].blob->data.layout(), layout)) return made;
    }
    const ValueId made = add_value(value, layout);
    program_[made].maker = add_node(value, made);
    program_.order.push_back(program_[made].maker);
    return made;
  }

  /// A new value for `origin` in `layout`. A layer may write it in place of `origin`; run_behind()
  /// then adds the conversion to `origin`.
  ValueId add_value(ValueId origin, const Layout& layout) {
    const ProgramValue& value = program_[origin];
    ProgramValue copy;
    copy.name = value.name;
    copy.version = value.version;
    copy.producer = value.producer;
    copy.origin = origin;
    copy.own = std::make_unique<Blob>(value.name);
    copy.own->reshape(value.blob->shape());
    copy.own->set_layout(layout);
    copy.blob = copy.own.get();
    return program_.values.push_back(std::move(copy));
  }

  void run_behind(ValueId raw, ValueId value) {
    const NodeId id = add_node(raw, value);
    ProgramNode& node = program_[id];
    node.needs_backward = program_[program_[value].producer].needs_backward;
    node.propagate[0] = node.needs_backward;
    program_[value].maker = id;
    program_.order.push_back(id);
  }

 private:
  NodeId add_node(ValueId from, ValueId to) {
    ProgramNode node;
    LayerParameter param;
    param.set_name(program_[from].name);
    param.set_type("Conversion");
    node.own = std::make_unique<Conversion>(LayerInit{.param = param,
                                                      .context = *plan_.context,
                                                      .run = *plan_.run,
                                                      .dtype = plan_.options.dtype});
    node.layer = node.own.get();
    const ValueId of_graph = program_[from].is_converted() ? program_[from].origin : from;
    node.follows_values = plan_.graph->has_late_shape(of_graph);
    node.propagate = {false};
    node.reads = {from};
    node.makes = {to};
    return program_.nodes.push_back(std::move(node));
  }

  const Plan& plan_;
  Program& program_;
};

}  // namespace

void choose_layouts(const Plan& plan, Program& program) {
  Chooser chooser(plan, program.reach);
  const Chooser::Options picked = chooser.pick();
  Conversions conversions(plan, program);
  for (const NodeId id : plan.graph->node_ids()) {
    const Node& node = plan.node(id);
    if (!node.scheduled() || id.index() >= program.reach) continue;
    program[id].option = *picked[id];
    const Option& option = *picked[id];
    for (size_t i = 0; i < node.bottoms.size(); ++i) {
      ValueId bottom = node.bottoms[i];
      const Layout& wanted = option.bottoms[i];
      if (!same(program[bottom].blob->data.layout(), wanted)) {
        bottom = conversions.converted(bottom, wanted);
        ProgramNode& maker = program[program[bottom].maker];
        if (maker.is_conversion() && node.propagate[i]) {
          maker.propagate[0] = maker.needs_backward = true;
        }
      }
      program[id].reads.push_back(bottom);
    }
    program.order.push_back(id);
    for (size_t t = 0; t < node.tops.size(); ++t) {
      const ValueId top = node.tops[t];
      const Layout &written = option.tops[t], layout = settle(chooser.demand(top), written);
      program[top].blob->set_layout(layout);
      const ValueId made = same(layout, written) ? top : conversions.add_value(top, written);
      program[made].maker = id;
      program[id].makes.push_back(made);
    }
    for (size_t t = 0; t < node.tops.size(); ++t) {
      const ValueId made = program[id].makes[t];
      if (made != node.tops[t]) conversions.run_behind(made, node.tops[t]);
    }
  }
  for (const ValueId id : plan.graph->value_ids())
    program[id].layout = program[id].blob->data.layout();
}

}  // namespace crema
