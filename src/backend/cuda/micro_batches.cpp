#include "backend/cuda/micro_batches.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "backend/batch_pieces.hpp"

namespace crema {
namespace {

/// Of the ways in pieces that are measured.
constexpr size_t kMostWays = 3;

size_t elements(int64_t channels, const std::vector<int64_t>& axes) {
  return std::accumulate(axes.begin(), axes.end(), static_cast<size_t>(channels),
                         [](size_t all, int64_t axis) { return all * static_cast<size_t>(axis); });
}

/// Bytes of an image.
size_t x_bytes(const DnnConvolutionProblem& p) {
  return elements(p.channels, p.input) * size_of(p.contiguous_source ? DType::f32 : p.dtype);
}
size_t y_bytes(const DnnConvolutionProblem& p) {
  return elements(p.y_row > 0 ? p.y_row : p.outputs, p.output) * size_of(p.dtype);
}

std::vector<int64_t> counts_of(const DnnConvolutionProblem& problem) {
  return piece_counts(problem.images, {x_bytes(problem), y_bytes(problem)});
}

/// "engine 11" of "engine 11 k2=4".
std::string engine_of(const DnnWay& way) {
  const std::string& name = way.candidate->name();
  const size_t number = name.find(' ');
  return number == std::string::npos ? name : name.substr(0, name.find(' ', number + 1));
}

}  // namespace

std::string MicroWay::str() const { return name_in_pieces(pieces, way.str()); }

DnnConvolutionProblem problem_of_piece(const DnnConvolutionProblem& problem, int64_t pieces) {
  DnnConvolutionProblem piece = problem;
  piece.images /= pieces;
  return piece;
}

std::vector<MicroWay> micro_ways(DnnPlans& plans, const DnnConvolutionProblem& problem,
                                 DnnPass pass, const DnnRules& rules,
                                 const std::vector<DnnWay>& whole) {
  std::set<std::string> excluded;
  for (const DnnWay& way : whole) {
    std::string why;
    // One that cannot be made has no scratch memory to save.
    if (way.candidate->workspace(why) && !dnn_can_run(problem, way, rules, why))
      excluded.insert(way.form() + engine_of(way));
  }
  if (excluded.empty()) return {};
  std::vector<MicroWay> found;
  for (const int64_t pieces : counts_of(problem)) {
    const DnnConvolutionProblem piece = problem_of_piece(problem, pieces);
    std::string why;
    for (DnnWay& way : dnn_ways(plans, piece, pass, rules, why)) {
      const bool fits = excluded.count(way.form() + engine_of(way)) != 0 &&
                        found.size() < kMostWays && dnn_can_run(piece, way, rules, why);
      if (fits) {
        found.push_back({std::move(way), pieces});
      } else {
        way.candidate->forget();
      }
    }
    if (!found.empty()) break;
  }
  return found;
}

std::optional<MicroWay> micro_way(DnnPlans& plans, const DnnConvolutionProblem& problem,
                                  DnnPass pass, const DnnRules& rules, const std::string& name,
                                  std::string& why) {
  const auto [pieces, inner] = pieces_of_name(name);
  const std::vector<int64_t> counts = counts_of(problem);
  if (pieces > 1 && std::ranges::find(counts, pieces) == counts.end()) return std::nullopt;
  const auto way = dnn_way(plans, problem_of_piece(problem, pieces), pass, rules, inner, why);
  if (!way) return std::nullopt;
  return MicroWay{*way, pieces};
}

bool micro_can_run(const DnnConvolutionProblem& problem, const MicroWay& way, const DnnRules& rules,
                   std::string& why) {
  return dnn_can_run(problem_of_piece(problem, way.pieces), way.way, rules, why);
}

double micro_measure(CudaBackend& backend, const DnnConvolutionProblem& problem,
                     const MicroWay& way, const DnnRules& rules) {
  return static_cast<double>(way.pieces) *
         dnn_measure(backend, problem_of_piece(problem, way.pieces), way.way, rules);
}

MicroBatches::MicroBatches(const DnnConvolutionProblem& problem, const MicroWay& way) {
  const DnnConvolutionProblem piece = problem_of_piece(problem, way.pieces);
  x_bytes_ = static_cast<size_t>(piece.images) * x_bytes(piece);
  y_bytes_ = static_cast<size_t>(piece.images) * y_bytes(piece);
  for (int64_t i = 0; i < way.pieces; ++i) parts_.emplace_back(piece, way.way);
}

std::string MicroBatches::str() const { return MicroWay{way(), std::ssize(parts_)}.str(); }

void MicroBatches::multiply(CudaBackend& backend, const void* from, const void* weights,
                            const DnnBias& bias, const void* other, void* to, void* scratch) {
  const bool data = way().pass == DnnPass::data;
  const size_t from_bytes = data ? y_bytes_ : x_bytes_, to_bytes = data ? x_bytes_ : y_bytes_;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto piece = static_cast<int64_t>(i);
    parts_[i].multiply(backend, piece_at(from, piece, from_bytes), weights, bias,
                       piece_at(other, piece, to_bytes), piece_at(to, piece, to_bytes), scratch);
  }
}

void MicroBatches::add_weights_gradient(CudaBackend& backend, const void* x, const void* dy,
                                        float beta, float* dw, void* scratch) {
  each_piece(static_cast<int64_t>(parts_.size()), beta, [&](int64_t piece, float before) {
    parts_[static_cast<size_t>(piece)].add_weights_gradient(
        backend, piece_at(x, piece, x_bytes_), piece_at(dy, piece, y_bytes_), before, dw, scratch);
  });
}

}  // namespace crema
