#include "tools/profile_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "tools/columns.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// In a column of so many letters; "" where the value is 0.
std::string cell(int width, const char* format, double value) {
  char buffer[64] = "";
  if (value > 0) std::snprintf(buffer, sizeof buffer, format, value);
  const std::string content = buffer;
  const auto room = static_cast<size_t>(width);
  return ' ' + std::string(room - std::min(room, content.size()), ' ') + content;
}

std::string line(const CostRow& row, double iteration) {
  const double seconds = row.time() / 1e3;
  const auto rate = [&](double amount) { return seconds > 0 ? amount / seconds / 1e9 : 0; };
  return cell(10, "%.3f", row.forward) + cell(10, "%.3f", row.backward) +
         cell(6, "%.1f%%", iteration > 0 ? 100 * row.time() / iteration : 0) +
         cell(9, "%.3f", row.flops / 1e9) + cell(8, "%.1f", rate(row.flops)) +
         cell(5, "%.0f%%", 100 * row.compute_share) + cell(9, "%.2f", row.bytes / 1e6) +
         cell(7, "%.1f", rate(row.bytes)) + cell(5, "%.0f%%", 100 * row.memory_share);
}

double largest_rate(const CostLimits& limits) {
  return limits.copies.empty() ? 0 : limits.copies.back().rate;
}

}  // namespace

void print_costs(const Net& net, const LayerCosts& costs, const CostLimits& limits,
                 int iterations) {
  int name = 5, type = 4;
  for (const CostRow& row : costs.rows) {
    name = std::max(name, static_cast<int>(printable(row.name).size()));
    type = std::max(type, static_cast<int>(row.type.size()));
  }
  std::printf("%-*s %-*s %10s %10s %6s %9s %8s %5s %9s %7s %5s  %-8s  %s\n", name, "layer", type,
              "type", "forward ms", "backward", "share", "GFLOP", "GFLOP/s", "peak", "MB", "GB/s",
              "copy", "bound by", "engine");
  const auto print = [&](const CostRow& row) {
    std::string all = text(line(row, costs.iteration), "  ", to_string(row.bound));
    all.resize(std::max(all.size(), line({}, 0).size() + 10), ' ');
    all += "  " + row.engine;
    all.erase(all.find_last_not_of(' ') + 1);
    char head[512];
    std::snprintf(head, sizeof head, "%-*s %-*s", name, printable(row.name).c_str(), type,
                  row.type.c_str());
    // Engines say much of some layers; a terminal would begin another line.
    const std::string whole = head + all;
    std::printf("%s\n", ::isatty(STDOUT_FILENO) != 0 ? cut_to(whole, terminal_width()).c_str()
                                                     : whole.c_str());
  };
  for (const CostRow& row : costs.rows) print(row);
  CostRow total = costs.total;
  total.name = "all layers";
  print(total);
  double bounds[4] = {};
  for (const CostRow& row : costs.rows) bounds[static_cast<size_t>(row.bound)] += row.time();
  std::printf("\n%s: an iteration takes %.3f ms (mean of %d)",
              net.name().empty() ? "net" : printable(net.name()).c_str(), costs.iteration,
              iterations);
  if (bounds[0] < costs.iteration) {
    const auto share = [&](Bound bound) {
      return costs.iteration > 0 ? 100 * bounds[static_cast<size_t>(bound)] / costs.iteration : 0;
    };
    std::printf(": %.0f%% in layers bound by compute, %.0f%% by memory, %.0f%% by overhead",
                share(Bound::compute), share(Bound::memory), share(Bound::overhead));
  }
  std::printf("\nlimits: %.1f GFLOP/s of multiply-adds in f32", limits.f32 / 1e9);
  if (limits.bf16 != limits.f32)
    std::printf(", %.1f in TF32, %.1f in bf16", limits.tf32 / 1e9, limits.bf16 / 1e9);
  std::printf("; copies, read and written, %.1f GB/s", largest_rate(limits) / 1e9);
  if (limits.copies.size() > 1)
    std::printf(" (%.1f of %.0f KB)", limits.copies.front().rate / 1e9,
                limits.copies.front().bytes / 1024);
  std::printf("\n");
}

std::string costs_json(const Net& net, const LayerCosts& costs, const CostLimits& limits,
                       int iterations) {
  const auto row_json = [](const CostRow& row) {
    return text("{\"name\": ", json_string(row.name), ", \"type\": ", json_string(row.type),
                ", \"forward_ms\": ", json_number(row.forward),
                ", \"backward_ms\": ", json_number(row.backward),
                ", \"gflop\": ", json_number(row.flops / 1e9),
                ", \"mb\": ", json_number(row.bytes / 1e6),
                ", \"peak_share\": ", json_number(row.compute_share),
                ", \"copy_share\": ", json_number(row.memory_share),
                ", \"bound\": ", json_string(to_string(row.bound)),
                ", \"engine\": ", json_string(row.engine), "}");
  };
  std::string rows, copies;
  for (const CostRow& row : costs.rows) rows += (rows.empty() ? "" : ", ") + row_json(row);
  for (const CostLimits::Copy& copy : limits.copies) {
    copies += text(copies.empty() ? "" : ", ", "{\"mb\": ", json_number(copy.bytes / 1e6),
                   ", \"gbs\": ", json_number(copy.rate / 1e9), "}");
  }
  CostRow total = costs.total;
  total.name = "all layers";
  return text("{\"net\": ", json_string(net.name()), ", \"iterations\": ", iterations,
              ", \"iteration_ms\": ", json_number(costs.iteration),
              ", \"peak_gflops\": ", json_number(limits.f32 / 1e9), ", \"copies\": [", copies,
              "], \"layers\": [", rows, "], \"total\": ", row_json(total), "}");
}

}  // namespace crema::tools
