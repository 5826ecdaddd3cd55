#include "analysis/layer_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "net/traffic.hpp"

namespace crema {
namespace {

/// Of what is no step. A name of a layer cannot be taken for one: these have no type.
const char* name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::sum:
      return "sums of diffs";
    case SpanKind::seed:
      return "first diffs";
    case SpanKind::update:
      return "update";
    case SpanKind::wait:
      return "wait for data";
    default:
      return "between layers";
  }
}

bool is_step(SpanKind kind) {
  return kind == SpanKind::forward || kind == SpanKind::backward || kind == SpanKind::recompute;
}

using Key = std::pair<std::string, std::string>;  // name and type

struct Sums {
  double forward = 0, backward = 0;  // ms
  int forwards = 0, backwards = 0;   // passes; the second ones
  int again = 0;
};

/// Adds up what each span takes without those inside of it. Returns the sums over whole iterations,
/// and their number.
std::map<Key, Sums> self_times(const std::vector<SpanRecord>& spans, int& iterations) {
  std::map<Key, Sums> all, present;
  std::vector<const SpanRecord*> inside;  // of the span that ends next
  iterations = 0;
  for (const SpanRecord& span : spans) {
    int64_t self = span.end - span.begin;
    while (!inside.empty() && inside.back()->begin >= span.begin) {
      self -= inside.back()->end - inside.back()->begin;
      inside.pop_back();
    }
    inside.push_back(&span);
    const bool step = is_step(span.kind);
    Sums& sums = present[step ? Key(span.text.name, span.text.type) : Key(name_of(span.kind), "")];
    const double ms = static_cast<double>(self) / 1e6;
    if (span.kind == SpanKind::backward || span.kind == SpanKind::recompute ||
        span.kind == SpanKind::sum || span.kind == SpanKind::seed) {
      sums.backward += ms;
    } else {
      sums.forward += ms;
    }
    if (span.kind == SpanKind::forward) ++sums.forwards;
    if (span.kind == SpanKind::backward) ++sums.backwards;
    if (span.kind == SpanKind::recompute) ++sums.again;
    if (span.kind != SpanKind::iteration) continue;
    ++iterations;
    for (const auto& [key, one] : present) {
      Sums& sum = all[key];
      sum.forward += one.forward;
      sum.backward += one.backward;
      sum.forwards += one.forwards;
      sum.backwards += one.backwards;
      sum.again += one.again;
    }
    present.clear();
    inside.clear();
  }
  return all;
}

Bound bound_of(const CostRow& row) {
  if (std::max(row.compute_share, row.memory_share) < kExplains) return Bound::overhead;
  return row.compute_share >= row.memory_share ? Bound::compute : Bound::memory;
}

}  // namespace

const char* to_string(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::memory:
      return "memory";
    case Bound::overhead:
      return "overhead";
    case Bound::none:
      break;
  }
  return "";
}

double CostLimits::product_rate(const NetStep& step) const {
  const std::string& format = step.bottom_format;
  const auto has = [&](const char* type) { return format.find(type) != std::string::npos; };
  if (has("f64")) return f64;
  if (has("bf16") || has("f16")) return bf16;
  return multiplies_in_tf32 ? tf32 : f32;
}

double CostLimits::copy_rate(double bytes) const {
  if (copies.empty()) return 0;
  const auto above =
      std::ranges::lower_bound(copies, bytes, {}, [](const Copy& copy) { return copy.bytes; });
  if (above == copies.begin()) return copies.front().rate;
  if (above == copies.end()) return copies.back().rate;
  const auto below = above - 1;
  const double part = std::log(bytes / below->bytes) / std::log(above->bytes / below->bytes);
  return below->rate + part * (above->rate - below->rate);
}

LayerCosts layer_costs(const Net& net, const ProfileRun& run, const CostLimits& limits) {
  LayerCosts costs;
  int iterations = 0;
  const std::map<Key, Sums> sums =
      self_times(run.on_device.empty() ? run.threads.at(0).spans : run.on_device, iterations);
  if (iterations == 0) throw Error("the run has no whole iteration");
  const std::vector<StepTraffic> traffic = step_traffic(net);
  // Several conversions of one blob have one name: their work adds up, as their times do.
  std::map<Key, std::vector<size_t>> steps;
  for (size_t s = 0; s < net.steps().size(); ++s)
    steps[{net.steps()[s].name, net.steps()[s].type}].push_back(s);
  for (const auto& [key, sum] : sums) {
    CostRow row{.name = key.first, .type = key.second};
    row.forward = sum.forward / iterations;
    row.backward = sum.backward / iterations;
    costs.iteration += row.time();
    double compute = 0, memory = 0;  // seconds at the limits
    const auto found = steps.find(key);
    if (found != steps.end()) {
      const std::vector<size_t>& same = found->second;
      const double each = static_cast<double>(same.size()) * iterations;
      const double forwards = (sum.forwards + sum.again) / each, backwards = sum.backwards / each;
      for (const size_t s : same) {
        const NetStep& step = net.steps()[s];
        row.engine = text(step.engine, " ", step.bottom_format, ">", step.top_format,
                          step.detail.empty() ? "" : " ", step.detail);
        const auto forward_bytes = static_cast<double>(traffic[s].forward);
        const auto backward_bytes = static_cast<double>(traffic[s].backward);
        const double flops = forwards * step.flops.forward + backwards * step.flops.backward;
        row.flops += flops;
        row.bytes += forwards * forward_bytes + backwards * backward_bytes;
        if (const double rate = limits.product_rate(step); rate > 0) compute += flops / rate;
        if (const double rate = limits.copy_rate(forward_bytes); rate > 0)
          memory += forwards * forward_bytes / rate;
        if (const double rate = limits.copy_rate(backward_bytes); rate > 0)
          memory += backwards * backward_bytes / rate;
      }
      costs.total.forward += row.forward;
      costs.total.backward += row.backward;
      costs.total.flops += row.flops;
      costs.total.bytes += row.bytes;
      costs.total.compute_share += compute * 1e3;
      costs.total.memory_share += memory * 1e3;
      if (row.time() > 0) {
        row.compute_share = 1e3 * compute / row.time();
        row.memory_share = 1e3 * memory / row.time();
        if (limits.f32 > 0 && !limits.copies.empty()) row.bound = bound_of(row);
      }
    }
    costs.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(costs.rows, std::ranges::greater(), &CostRow::time);
  if (costs.total.time() > 0) {
    costs.total.compute_share /= costs.total.time();
    costs.total.memory_share /= costs.total.time();
  }
  return costs;
}

}  // namespace crema
