// Chooses the memory format of every value, and puts conversions where neighbours disagree.
//
// Each layer offers (bottom format, top format, seconds). Layers whose work depends on the format
// (convolutions) are free choices; the others go along with their bottoms wherever they can. The
// cost of an assignment is the measured seconds of the free ones plus the memory traffic of the
// conversions; it is lowered by changing one free layer at a time, from the best of the uniform
// assignments. That is not always the optimum, but nets are chains of runs: a change of a run's
// first layer moves all that follow it up to the next free one.
#include <algorithm>
#include <limits>
#include <sstream>

#include "backend/tuner.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "net/conversion.hpp"
#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Bytes a second that a conversion moves, read plus written; only its order of magnitude matters.
constexpr double kConversionRate = 12e9;

struct Choices {
  std::vector<std::vector<FormatOption>> options;  // per layer node; empty when not scheduled
  std::vector<int> free;                           // nodes that are free choices
};

bool has_format(const Value& value) { return value.blob.shape().rank() >= 3; }

double conversion_seconds(const Plan& plan, const Value& value) {
  const double bytes = static_cast<double>(value.blob.data.count()) *
                       static_cast<double>(size_of(plan.options.dtype));
  return 2 * bytes * (plan.trains ? 2 : 1) / kConversionRate;
}

/// Fills `picked` (an option index a node) and returns the seconds of the whole assignment.
/// forced[n] >= 0 fixes the option of a free node.
double evaluate(const Plan& plan, const Choices& choices, const std::vector<int>& forced,
                std::vector<int>& picked) {
  std::vector<Format> format(plan.values.size(), Format::contiguous);
  // A value converted once to a format serves every reader that wants it so.
  std::vector<unsigned> converted(plan.values.size(), 0);
  double total = 0;
  for (size_t n = 0; n < plan.layer_count; ++n) {
    const auto& options = choices.options[n];
    if (options.empty()) continue;
    const Node& node = plan.nodes[n];
    auto conversions = [&](const FormatOption& option) {
      double seconds = 0;
      for (int bottom : node.bottoms) {
        const auto b = static_cast<size_t>(bottom);
        const bool done = converted[b] >> static_cast<unsigned>(option.bottom) & 1U;
        if (has_format(plan.value(bottom)) && format[b] != option.bottom && !done) {
          seconds += conversion_seconds(plan, plan.value(bottom));
        }
      }
      return seconds;
    };
    int best = forced[n];
    if (best < 0) {
      double best_seconds = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < options.size(); ++i) {
        const double seconds = options[i].seconds + conversions(options[i]);
        if (seconds < best_seconds) {
          best_seconds = seconds;
          best = static_cast<int>(i);
        }
      }
    }
    const FormatOption& option = options[static_cast<size_t>(best)];
    total += option.seconds + conversions(option);
    picked[n] = best;
    for (int bottom : node.bottoms) {
      const auto b = static_cast<size_t>(bottom);
      if (format[b] != option.bottom) converted[b] |= 1U << static_cast<unsigned>(option.bottom);
    }
    for (int top : node.tops) format[static_cast<size_t>(top)] = option.top;
  }
  return total;
}

Choices collect(Plan& plan) {
  Choices choices;
  choices.options.resize(plan.layer_count);
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Node& node = plan.nodes[n];
    if (!node.scheduled()) continue;
    auto& options = choices.options[n];
    options = in_node(node, [&] { return node.layer->options(node.bottom_blobs, node.top_blobs); });
    // Of options with the same formats one survives: the fastest measured, else the first.
    std::vector<FormatOption> distinct;
    for (const auto& option : options) {
      auto same = std::find_if(distinct.begin(), distinct.end(), [&](const FormatOption& other) {
        return other.bottom == option.bottom && other.top == option.top;
      });
      if (same == distinct.end()) {
        distinct.push_back(option);
      } else if (option.seconds > 0 && same->seconds > 0 && option.seconds < same->seconds) {
        *same = option;
      }
    }
    // Beside measured options the others, slow ones that nobody cared to measure, do not count.
    if (std::any_of(distinct.begin(), distinct.end(),
                    [](const auto& o) { return o.seconds > 0; })) {
      std::erase_if(distinct, [](const auto& o) { return o.seconds <= 0; });
    }
    options = std::move(distinct);
    in_node(node, [&] { require(!options.empty(), "offers no memory format to run in"); });
    const bool free = options.size() > 1 &&
                      std::any_of(options.begin(), options.end(), [](const FormatOption& option) {
                        return option.bottom != option.top || option.seconds > 0;
                      });
    if (free) choices.free.push_back(static_cast<int>(n));
  }
  return choices;
}

/// What a node has to compute, but for the names it goes by. Of data sources it is their tops
/// alone: the same files may lie elsewhere in a resumed run.
void write_problem(const Node& node, std::ostream& out) {
  const Layer& layer = *node.layer;
  out << layer.type() << ' ' << node.absorbed_into << ' ' << node.needs_backward << ' ';
  for (bool propagate : node.propagate) out << propagate;
  if (node.scheduled()) {
    for (const Blob* blob : node.bottom_blobs) out << ' ' << blob->shape().str();
    out << " >";
    for (const Blob* blob : node.top_blobs) out << ' ' << blob->shape().str();
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

/// Under which choices are remembered: what is chosen decides rounding, so a resumed run must
/// choose the same. A choice depends on its neighbours', so it holds in a net of the same problems
/// only.
std::string decision_key(const Plan& plan) {
  std::ostringstream problems, key;
  problems << to_string(plan.options.dtype) << ' ' << plan.trains;
  for (size_t n = 0; n < plan.layer_count; ++n) write_problem(plan.nodes[n], problems << '\n');
  key << "formats of net " << std::hex << stream_id(problems.str());
  return key.str();
}

std::string decision_key(const Plan& plan, const std::string& net, int node) {
  return concat(net, ", layer ", node, " ", plan.nodes[static_cast<size_t>(node)].layer->name());
}

/// An option in words that mean the same in another build, which may have other engines.
std::string describe(const Plan& plan, int node, const FormatOption& option) {
  const Layer& layer = *plan.nodes[static_cast<size_t>(node)].layer;
  std::string engine = "reference";
  if (option.engine >= 0) {
    const auto engines = Registry::instance().engines(layer.type(), plan.context->device().type);
    engine = engines.at(static_cast<size_t>(option.engine))->name;
  }
  return concat(to_string(option.bottom), ">", to_string(option.top), "@", engine);
}

/// The options that the tuner remembers for all free nodes; empty when one is not known.
std::vector<int> remembered(const Plan& plan, const Choices& choices, const std::string& net) {
  std::vector<int> forced(plan.layer_count, -1);
  for (int n : choices.free) {
    std::string decision;
    if (!plan.context->tuner().decided(decision_key(plan, net, n), decision)) return {};
    const auto& options = choices.options[static_cast<size_t>(n)];
    const auto found = std::find_if(options.begin(), options.end(), [&](const FormatOption& o) {
      return describe(plan, n, o) == decision;
    });
    if (found == options.end()) return {};
    forced[static_cast<size_t>(n)] = static_cast<int>(found - options.begin());
  }
  std::vector<int> picked(plan.layer_count, -1);
  evaluate(plan, choices, forced, picked);
  return picked;
}

std::vector<int> search(const Plan& plan, const Choices& choices) {
  std::vector<int> best(plan.layer_count, -1), picked(plan.layer_count, -1);
  double best_seconds = std::numeric_limits<double>::infinity();
  for (Format uniform :
       {Format::blocked16, Format::blocked8, Format::channels_last, Format::contiguous}) {
    std::vector<int> forced(plan.layer_count, -1);
    for (int n : choices.free) {
      const auto& options = choices.options[static_cast<size_t>(n)];
      int choice = -1;
      for (size_t i = 0; i < options.size(); ++i) {
        if (options[i].top != uniform) continue;
        const bool better =
            choice < 0 || options[i].seconds < options[static_cast<size_t>(choice)].seconds;
        if (better) choice = static_cast<int>(i);
      }
      forced[static_cast<size_t>(n)] = choice;
    }
    const double seconds = evaluate(plan, choices, forced, picked);
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best = picked;
    }
  }
  std::vector<int> forced(plan.layer_count, -1);
  for (int n : choices.free) forced[static_cast<size_t>(n)] = best[static_cast<size_t>(n)];
  for (bool better = true; better;) {
    better = false;
    for (int n : choices.free) {
      int& choice = forced[static_cast<size_t>(n)];
      const int before = choice;
      int keep = before;
      for (size_t i = 0; i < choices.options[static_cast<size_t>(n)].size(); ++i) {
        choice = static_cast<int>(i);
        const double seconds = evaluate(plan, choices, forced, picked);
        if (seconds < best_seconds * (1 - 1e-6)) {
          best_seconds = seconds;
          best = picked;
          keep = choice;
          better = true;
        }
      }
      choice = keep;
    }
  }
  return best;
}

void set_format(Plan& plan, Value& value, Format format) {
  if (!has_format(value)) format = Format::contiguous;
  for (Tensor* tensor : {&value.blob.data, &value.blob.diff}) {
    if (tensor->format() != format) tensor->set_layout(plan.options.dtype, format);
  }
}

/// The value that holds `value` in `format`, converting it first when nobody did yet. Conversions
/// are run right before their first reader.
int converted(Plan& plan, int value, Format format) {
  for (size_t i = plan.value_count; i < plan.values.size(); ++i) {
    const Node& maker = plan.node(plan.values[i]->producer);
    if (maker.bottoms[0] == value && plan.values[i]->blob.data.format() == format) {
      return static_cast<int>(i);
    }
  }
  const int node_id = static_cast<int>(plan.nodes.size());
  const int made = static_cast<int>(plan.values.size());
  auto copy = std::make_unique<Value>();
  copy->name = plan.value(value).name;
  copy->producer = node_id;
  copy->blob.name = copy->name;
  copy->blob.data.set_layout(plan.options.dtype, Format::contiguous);
  copy->blob.diff.set_layout(plan.options.dtype, Format::contiguous);
  copy->blob.reshape(plan.value(value).blob.shape());
  set_format(plan, *copy, format);
  plan.values.push_back(std::move(copy));

  Node node;
  node.layer = make_conversion(plan.value(value).name, *plan.context);
  node.layer->set_dtype(plan.options.dtype);
  node.is_conversion = true;
  node.bottoms = {value};
  node.tops = {made};
  node.propagate = {false};
  node.bottom_blobs = {&plan.value(value).blob};
  node.top_blobs = {&plan.value(made).blob};
  node.edges.resize(1);
  plan.nodes.push_back(std::move(node));
  plan.order.push_back(node_id);
  return made;
}

}  // namespace

void choose_formats(Plan& plan) {
  const Choices choices = collect(plan);
  const std::string net = choices.free.empty() ? "" : decision_key(plan);
  std::vector<int> picked = remembered(plan, choices, net);
  if (picked.empty()) {
    picked = search(plan, choices);
    for (int n : choices.free) {
      const auto& options = choices.options[static_cast<size_t>(n)];
      const int choice = picked[static_cast<size_t>(n)];
      plan.context->tuner().decide(decision_key(plan, net, n),
                                   describe(plan, n, options[static_cast<size_t>(choice)]));
    }
  }
  plan.order.clear();
  for (size_t n = 0; n < plan.layer_count; ++n) {
    if (!plan.nodes[n].scheduled()) continue;
    const FormatOption option = choices.options[n][static_cast<size_t>(picked[n])];
    plan.nodes[n].option = option;
    for (size_t i = 0; i < plan.nodes[n].bottoms.size(); ++i) {
      const int bottom = plan.nodes[n].bottoms[i];
      Value& value = plan.value(bottom);
      if (!has_format(value) || value.blob.data.format() == option.bottom) continue;
      const int made = converted(plan, bottom, option.bottom);
      Node& node = plan.nodes[n];  // the vector may have moved
      Node& maker = plan.node(plan.value(made).producer);
      maker.propagate[0] = maker.propagate[0] || node.propagate[i];
      maker.needs_backward = maker.propagate[0];
      node.bottoms[i] = made;
      node.bottom_blobs[i] = &plan.value(made).blob;
    }
    plan.order.push_back(static_cast<int>(n));
    for (int top : plan.nodes[n].tops) set_format(plan, plan.value(top), option.top);
  }
}

}  // namespace crema
