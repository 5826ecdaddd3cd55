// Reads and checks the settings of a solver prototxt, before the nets are built.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/solver.hpp"
#include "model/source_map.hpp"

namespace crema {

class NetParameter;

/// One net that the solver builds: from a file, or inline.
struct NetSource {
  std::string file;                       // empty: inline
  const NetParameter* inlined = nullptr;  // belongs to the SolverParameter
  std::string place;                      // of an inline one in it, such as "test_net_param[1]"
  NetOptions options;                     // phase, level, stages
  /// The net with values that the caller gave; null: as the file or the message has it.
  std::shared_ptr<const NetParameter> changed;
  SourceMap source;  // of `changed`
};

struct SolverNets {
  NetSource train;
  std::vector<NetSource> tests;
  std::vector<int> test_iterations;  // batches of each test net
};

/// Which nets to build, in which states. A net that is not found from the working directory is
/// looked for beside the solver's file. Error for none, several, or test settings that contradict
/// each other.
SolverNets resolve_nets(const SolverParameter& param, const SolverOptions& options,
                        const SourceMap& source);

/// The message of the net, to be changed. The source of `net` is set.
std::shared_ptr<NetParameter> message_of(NetSource& net, const SourceMap& solver);

/// Whether a setting of the solver with that number is a fork's, by the ranges that
/// proto/common.proto gives.
bool is_of_fork(int field_number);

/// Checks every number of the solver; Error for what cannot work. Returns a line for each setting
/// that has no effect here.
std::vector<std::string> check_settings(const SolverParameter& param, const SourceMap& source);

/// Prefix of snapshot files: snapshot_prefix, or the solver's file name without its ending. A
/// folder gets the solver's name appended.
std::string snapshot_prefix(const SolverParameter& param, const std::string& solver_file);

/// Whether the settings ask for snapshots. A signal may ask for one all the same.
bool takes_snapshots(const SolverParameter& param);

/// The files of the solver's `weights`, each entry of which may name several, joined by commas.
std::vector<std::string> weight_files(const SolverParameter& param);

/// Whether the prefix is in a folder that is missing here and is that of a model in the folders of
/// model_path(), as models/lenet: its snapshots belong below the working directory, as those of the
/// repository do.
bool is_folder_of_model(const std::string& prefix);

/// Makes such a folder.
void make_folder_of_model(const std::string& prefix);

/// Error when no snapshot with files of these bytes could be written under the prefix: too large
/// for the format, no such folder, no right to write, no space. `average`: of the weights. Returns
/// a warning if there is no space for all that the settings keep, with PREFIX_best and with copies
/// in the place of links, or "".
std::string check_snapshot_place(const std::string& prefix, const SolverParameter& param,
                                 size_t weights, size_t state, size_t average);

}  // namespace crema
