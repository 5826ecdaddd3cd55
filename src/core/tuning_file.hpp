// The file of a Tuner's times.
//
//   crema tuning 3: PROCESSOR, VECTORS, LIBRARY
//   problem<TAB>multiply-adds<TAB>threads<TAB>size,size,...<TAB>group<TAB>PROBLEM
//   seconds<TAB>runs<TAB>spread<TAB>waiting<TAB>stolen<TAB>switched<TAB>state<TAB>PROBLEM|CANDIDATE
//
// A file is written beside its place and renamed, so that readers see whole files. A line that is
// cut short or unknown is skipped.
#pragma once

#include <map>
#include <string>

#include "core/speed_model.hpp"
#include "core/tuned_time.hpp"

namespace crema {

struct TuningProblem {
  Workload workload;
  std::map<std::string, TunedTime> times;  // by candidate
};
/// By the name of the problem.
using TuningTimes = std::map<std::string, TuningProblem>;

/// What times depend on beside the problem: the first line of a file of this machine and build.
std::string tuning_file_header();
/// The first line of a file; "" if there is none.
std::string tuning_file_header(const std::string& path);

/// The times of a file; none if it is missing, or of another processor, library or version.
TuningTimes read_tuning_file(const std::string& path);
/// Makes the folder too. Returns false if the file cannot be written.
bool write_tuning_file(const std::string& path, const TuningTimes& times);

/// The reason why the path cannot be a tuner's file, such as "holds no measured times"; "" if it
/// can. A missing folder is no reason, because writing makes it. Nor is a file that can be read but
/// not written, because its times count.
std::string why_no_tuning_file(const std::string& path);

}  // namespace crema
