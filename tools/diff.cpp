// crema diff: what two files of weights, or two states of a solver, have in common.
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "model/array_file.hpp"
#include "model/blob_message.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"

DEFINE_double(
    tolerance, 0,
    "Of diff: Values a and b count as equal where |a - b| is at most this times max(1, |a|, |b|). "
    "Of others: The largest difference of an output, relative to its greatest value, that passes. "
    "Default: 1e-4.");

namespace crema::tools {
namespace {

std::string name_of(const FileArray& array) {
  return array.owner.empty() ? "array" : text(printable(array.owner), " ", array.index);
}

struct Counts {
  int only_a = 0, only_b = 0, shapes = 0, different = 0, near = 0, equal = 0, bits = 0;
  bool differ() const { return only_a + only_b + shapes + different != 0; }
};

enum class Finding { only_a, only_b, shapes, different, near, equal };

Finding judge(const ArrayPair& pair) {
  if (pair.b == nullptr) return Finding::only_a;
  if (pair.a == nullptr) return Finding::only_b;
  if (!pair.same_shape) return Finding::shapes;
  if (pair.difference.differing == 0) return Finding::equal;
  return pair.difference.scaled > FLAGS_tolerance ? Finding::different : Finding::near;
}

const char* word(Finding finding) {
  switch (finding) {
    case Finding::only_a:
      return "only in A";
    case Finding::only_b:
      return "only in B";
    case Finding::shapes:
      return "shapes differ";
    case Finding::different:
      return "different";
    case Finding::near:
      return "within tolerance";
    case Finding::equal:
      break;
  }
  return "equal";
}

Counts count(const std::vector<ArrayPair>& pairs) {
  Counts counts;
  for (const ArrayPair& pair : pairs) {
    const Finding finding = judge(pair);
    counts.only_a += finding == Finding::only_a;
    counts.only_b += finding == Finding::only_b;
    counts.shapes += finding == Finding::shapes;
    counts.different += finding == Finding::different;
    counts.near += finding == Finding::near;
    counts.equal += finding == Finding::equal;
    counts.bits += pair.same_bits;
  }
  return counts;
}

/// A line for each other field that differs. File names do not count: states of equal runs differ
/// in them.
void add_other_fields(const SolverState& a, const SolverState& b, std::vector<std::string>& lines) {
  const std::set<int> apart = {
      SolverState::kHistoryFieldNumber,    SolverState::kChecksumFieldNumber,
      SolverState::kLearnedNetFieldNumber, SolverState::kAverageNetFieldNumber,
      SolverState::kIterFieldNumber,       SolverState::kCurrentStepFieldNumber,
      SolverState::kSeedFieldNumber,       SolverState::kOriginFieldNumber};
  const auto* type = SolverState::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (apart.contains(field->number())) continue;
    google::protobuf::util::MessageDifferencer differencer;
    // A value that is not a number equals itself.
    google::protobuf::util::DefaultFieldComparator comparator;
    comparator.set_treat_nan_as_equal(true);
    differencer.set_field_comparator(&comparator);
    std::string report;
    differencer.ReportDifferencesToString(&report);
    if (differencer.CompareWithFields(a, b, {field}, {field})) continue;
    const auto count = std::ranges::count(report, '\n');
    lines.push_back(text(report.substr(0, report.find('\n')),
                         count > 1 ? text(", and ", count - 1, " more") : ""));
  }
}

/// Lines for what stands beside the arrays of a state.
std::vector<std::string> differences_of_fields(const ArrayFile& a, const ArrayFile& b) {
  std::vector<std::string> lines;
  const auto compare = [&](const char* name, const auto& left, const auto& right) {
    if (left != right) lines.push_back(text(name, ": ", left, " and ", right));
  };
  if (a.kind != ArrayFile::Kind::state) return lines;
  compare("iteration", a.state.iter(), b.state.iter());
  compare("steps of the learning rate", a.state.current_step(), b.state.current_step());
  compare("seed", a.state.seed(), b.state.seed());
  add_other_fields(a.state, b.state, lines);
  return lines;
}

void print_pairs(const std::vector<ArrayPair>& pairs) {
  int width = 5;
  for (const ArrayPair& pair : pairs) {
    if (judge(pair) != Finding::equal) {
      width = std::max(width, static_cast<int>(name_of(pair.any()).size()));
    }
  }
  bool first = true;
  for (const ArrayPair& pair : pairs) {
    const Finding finding = judge(pair);
    if (finding == Finding::equal) continue;
    if (first) {
      std::printf("\n%-*s %-16s %11s %11s %11s %12s  %s\n", width, "array", "finding", "max abs",
                  "max rel", "RMS", "values", "shape");
    }
    first = false;
    const std::string shape = blob_shape(*pair.any().blob).str();
    std::printf("%-*s %-16s ", width, name_of(pair.any()).c_str(), word(finding));
    if (!pair.same_shape) {
      std::printf("%11s %11s %11s %12s  %s%s%s\n", "", "", "", "", shape.c_str(),
                  finding == Finding::shapes ? " and " : "",
                  finding == Finding::shapes ? blob_shape(*pair.b->blob).str().c_str() : "");
      continue;
    }
    const ArrayDifference& by = pair.difference;
    std::printf("%11.4g %11.4g %11.4g %12lld  %s\n", by.absolute, by.relative, by.rms,
                static_cast<long long>(by.differing), shape.c_str());
  }
}

void print_json(const std::vector<ArrayPair>& pairs, const std::vector<std::string>& fields,
                const Counts& counts) {
  std::string json = text("{\"equal\": ", counts.differ() || !fields.empty() ? "false" : "true",
                          ", \"bit_equal_arrays\": ", counts.bits, ", \"fields\": [");
  for (size_t i = 0; i < fields.size(); ++i) json += (i ? ", " : "") + json_string(fields[i]);
  json += "], \"arrays\": [";
  for (size_t i = 0; i < pairs.size(); ++i) {
    const ArrayPair& pair = pairs[i];
    const FileArray& array = pair.any();
    const ArrayDifference& by = pair.difference;
    json += text(i ? ", " : "", "{\"layer\": ", json_string(array.owner),
                 ", \"index\": ", array.index, ", \"finding\": \"", word(judge(pair)), "\"");
    if (pair.same_shape) {
      json += text(", \"bit_equal\": ", pair.same_bits ? "true" : "false",
                   ", \"differing\": ", by.differing, ", \"max_abs\": ", json_number(by.absolute),
                   ", \"max_rel\": ", json_number(by.relative), ", \"rms\": ", json_number(by.rms));
    }
    json += "}";
  }
  std::printf("%s]}\n", json.c_str());
}

int diff(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2)
    throw Error("diff takes two files, as in `crema diff A.caffemodel B.caffemodel`; got ",
                arguments.size(), " arguments");
  if (!(FLAGS_tolerance >= 0))
    throw Error("--tolerance ", FLAGS_tolerance,
                std::isnan(FLAGS_tolerance) ? " is no number" : " is negative", "; give 0 or more");
  ArrayFile a, b;
  read_net_arrays(arguments[0], a);
  read_net_arrays(arguments[1], b);
  const std::vector<ArrayPair> pairs = compare_arrays(a, b);
  const std::vector<std::string> fields = differences_of_fields(a, b);
  const Counts counts = count(pairs);
  const bool differ = counts.differ() || !fields.empty();
  if (FLAGS_json) {
    print_json(pairs, fields, counts);
    return differ ? 1 : 0;
  }
  std::printf("A: %s (%s, %s), %zu arrays\n", printable(a.path).c_str(), a.describe().c_str(),
              a.format.c_str(), a.arrays.size());
  std::printf("B: %s (%s, %s), %zu arrays\n", printable(b.path).c_str(), b.describe().c_str(),
              b.format.c_str(), b.arrays.size());
  for (const auto& line : fields) std::printf("%s\n", printable(line).c_str());
  print_pairs(pairs);
  std::printf(
      "\n%d equal (%d to the bit), %d within tolerance, %d different, %d of other shapes, %d "
      "only in A, %d only in B\n",
      counts.equal, counts.bits, counts.near, counts.different, counts.shapes, counts.only_a,
      counts.only_b);
  return differ ? 1 : 0;
}

}  // namespace

extern const Command kDiff = {
    "diff",
    "compares two weights files, or two solver states",
    "  crema diff A.caffemodel B.caffemodel\n"
    "  crema diff A.caffemodel B.onnx\n"
    "  crema diff --tolerance 1e-6 A.solverstate B.solverstate\n"
    "\n"
    "Arrays belong together by layer and place. A line for each array that is missing in one\n"
    "file, has another shape, or other values: greatest absolute and relative difference, root\n"
    "mean square, number of values that differ. Exit status 0: equal, or within --tolerance; 1:\n"
    "they differ; 2: they cannot be compared.",
    {"tolerance", "json"},
    diff,
    2};

}  // namespace crema::tools
