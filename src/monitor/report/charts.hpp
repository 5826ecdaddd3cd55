// Curves as charts: a drawing that needs no script, and the data from which the page's script draws
// the same at other scales. A long curve is thinned by columns: the mean, the least and the
// greatest value of each stay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitor/report/run_files.hpp"

namespace crema {

/// Points of a curve, or columns of it, by iteration. Values that are not finite are left out.
struct ThinnedCurve {
  std::vector<int32_t> iterations;      // of a column: of its middle
  std::vector<double> values;           // of a column: the mean
  std::vector<double> least, greatest;  // empty where each value is one point
  std::vector<int32_t> not_finite;      // iterations
};
ThinnedCurve thinned(const Curve& curve, size_t columns);

/// Each value as the mean of all, weighted by exp(-distance / reach), in iterations. The values
/// themselves for reach 0.
std::vector<double> smoothed(const std::vector<int32_t>& iterations,
                             const std::vector<double>& values, double reach);

/// Up to `count` + 1 round numbers in [low, high].
std::vector<double> round_ticks(double low, double high, int count);

struct ChartLine {
  enum class Kind : uint8_t { smooth, plain, points };

  std::string name;
  const Curve* curve = nullptr;
  Kind kind = Kind::plain;
  int color = 1;  // 1 to 8
  bool is_dashed = false;
  int clock = 0;  // by number of add_clock()
};

struct ChartMark {
  int iteration = 0;
  std::string words;
  bool is_wrong = false;
};

struct Chart {
  std::string id, title;
  std::string unit;  // behind values; "share": percent, "bytes"
  std::vector<ChartLine> lines;
  std::vector<ChartMark> marks = {};
  bool can_be_log = false, from_zero = false;
};

/// The charts of one page.
class ChartPage {
 public:
  /// `lines`: about how many there will be, so that all together stay small.
  explicit ChartPage(size_t lines);

  /// Epochs and seconds by iteration, for the axis. Returns its number.
  int add_clock(const Curve& epoch, const Curve& time);
  /// All charts have one axis, [0, last].
  void set_last(int iteration) { last_ = iteration; }
  /// HTML of the chart; "" where no line has a point.
  std::string add(const Chart& chart);

  /// HTML of what sets smoothing, axis and scale; for above the charts.
  std::string tools() const;
  /// The JSON of the script; "" without charts.
  std::string data() const;

 private:
  size_t columns_;
  double last_ = 1;
  bool has_log_ = false, has_epochs_ = false, has_times_ = false;
  std::string charts_, clocks_;
  int clock_count_ = 0;
};

}  // namespace crema
