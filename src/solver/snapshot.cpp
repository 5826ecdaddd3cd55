#include "solver/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

#include "core/carried_state.hpp"
#include "core/memory_error.hpp"
#include "core/parse_number.hpp"
#include "core/path_advice.hpp"
#include "core/tuner.hpp"
#include "crema/parameter_arena.hpp"
#include "model/blob_message.hpp"
#include "model/snapshot_file.hpp"
#include "model/whole_file.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/early_stop.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/update_rule.hpp"
#include "solver/weight_average.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

std::string name_in_run(int test, const Layer& layer) {
  return test < 0 ? layer.name() : text("test", test, "/", layer.name());
}

/// Calls body(name, the layer as an Interface) for the layers of the run that have it.
/// body(name in the run, layer) for the layers of all nets.
template <class Body>
void for_layers(const TrainingState& run, const Body& body) {
  for (int test = -1; test < static_cast<int>(run.tests.size()); ++test) {
    Net& net = test < 0 ? *run.train : *run.tests[static_cast<size_t>(test)];
    for (Layer* layer : net.layers()) {
      body(name_in_run(test, *layer), *layer);
    }
  }
}

template <class Body>
void for_carrying_layers(const TrainingState& run, const Body& body) {
  for_layers(run, [&](const std::string& name, Layer& layer) {
    CarriesState* const state = layer.carries_state();
    if (state != nullptr && state->carries()) body(name, *state);
  });
}

template <class Body>
void for_sources(const TrainingState& run, const Body& body) {
  for_layers(run, [&](const std::string& name, Layer& layer) {
    if (DataSource* const source = layer.data_source()) body(name, *source);
  });
}

/// Restarts the data sources and the layers of the run that the state does not have, as published
/// ones have none, and warns of them.
void restart_others(const TrainingState& run, const RecordCursors& cursors) {
  std::vector<std::string> names, carrying;
  for_carrying_layers(run, [&](const std::string& name, CarriesState& layer) {
    if (cursors.states.count(name) != 0) return;
    layer.carry({});
    carrying.push_back(name);
  });
  if (!carrying.empty()) {
    run.train->context().log(Severity::warning,
                             text("the state does not hold what '", joined(carrying, "', '"),
                                  "' carry from batch to batch; they start from zeros"));
  }
  for_sources(run, [&](const std::string& name, DataSource& source) {
    if (cursors.of.count(name) != 0) return;
    source.restart();
    names.push_back(name);
  });
  if (names.empty()) return;
  run.train->context().log(
      Severity::warning,
      text("the state does not say how far the data of '", joined(names, "', '"),
           "' were read; they start from the beginning, so that the run sees other batches than "
           "without a break"));
}

/// Gives the files of a snapshot their names, the state's last. If that fails, those that have
/// theirs are removed: weights without a state are no snapshot. Weights that took the place of an
/// earlier run's stay: the state of that run would be left without any.
void finish_all(std::vector<std::pair<std::string, SyncedFile>>& files) {
  std::error_code unknown;
  const bool replaces = fs::exists(files.front().first, unknown);
  for (size_t i = 0; i < files.size(); ++i) {
    try {
      files[i].second.finish();
    } catch (const Error&) {
      for (size_t done = 0; done < i && !replaces; ++done) fs::remove(files[done].first, unknown);
      throw;
    }
  }
}

/// The net's weights, of this run.
void save_weights(const TrainingState& run, bool with_diffs, NetParameter& out) {
  run.train->save(out, with_diffs);
  Origin& origin = *out.mutable_origin();
  if (run.origin != nullptr) origin.MergeFrom(*run.origin);
  // Weights of two runs that are alike are the same to the byte; states name the folder.
  origin.clear_run();
  origin.set_iteration(run.iteration);
  if (run.keeper != nullptr) run.keeper->save(run.iteration, run.best, origin);
  if (!run.solver_file.empty()) origin.set_solver(run.solver_file);
  if (run.net_file.empty()) {
    origin.clear_net();  // it is in the solver
  } else {
    origin.set_net(run.net_file);
  }
}

/// Error unless the weights at `path` have this checksum.
void check_values(const NetParameter& weights, uint64_t checksum, const std::string& path,
                  const std::string& state) {
  if (values_checksum(weights) == checksum) return;
  throw Error("the weights '", path, "' were not written with the state '", state,
              "'; another run may have replaced one of them. Put both files of one snapshot "
              "together, take an earlier snapshot, or start from the weights alone with --weights");
}

/// The file of that name beside the state at `path`, or else where the name says, or else the one
/// with the name of the state, `tail` and the ending of `name`: both were renamed.
std::string beside_state(const std::string& path, const std::string& name, const char* tail,
                         const char* what) {
  // The name is relative to where that run was started: in another folder the same name may be
  // another run's.
  const fs::path beside = fs::path(path).parent_path() / fs::path(name).filename();
  std::error_code ignored;  // a damaged state may have any name
  if (!name.empty() && fs::exists(beside, ignored)) return beside.string();
  if (fs::exists(name, ignored)) return name;
  const size_t state_end = path.rfind(".solverstate"), own_end = name.rfind(".caffemodel");
  if (state_end != std::string::npos && own_end != std::string::npos) {
    const std::string renamed = path.substr(0, state_end) + tail + name.substr(own_end);
    if (fs::exists(renamed, ignored)) return renamed;
  }
  throw Error("its weights '", name, "' are neither there nor beside it", path_advice(name),
              "; put the ", what, " of the same snapshot next to it, under that name")
      .about(name)
      .at({path, 0, 0});
}

/// Error if the system refuses to read the file, as for lack of a right or a disk that fails. None
/// if there is no such file.
void require_readable(const std::string& path) {
  std::error_code ignored;  // a damaged state may have any name
  if (!fs::exists(path, ignored) && !ignored) return;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string block(size_t{1} << 20, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size()))) {
  }
  const int reason = errno;
  for (const int none : {0, ENOENT, ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP}) {
    if (reason == none) return;
  }
  throw Error("cannot read '", path, "': ", std::strerror(reason),
              "; that is no damage of the snapshot: mend it and resume again")
      .about(path);
}

/// Which types of solvers keep that many blobs for each of `parameters`; "" if none does.
std::string types_of(size_t blobs, size_t parameters) {
  if (parameters == 0 || blobs % parameters != 0) return "";
  const std::vector<std::string> types = UpdateRule::names(static_cast<int>(blobs / parameters));
  return types.empty() ? "" : text(", or to a solver of type ", joined(types, ", "));
}

/// Error if the state, of the run's type, is of a run with amsgrad and this run is not, or the
/// other way round.
void check_amsgrad(size_t blobs, size_t parameters, const TrainingState& run) {
  const size_t without = 2 * parameters, with = 3 * parameters, has = run.history->size();
  if (has == 3 && blobs == without)
    throw Error(
        "the state is of a run without amsgrad: it has no third history, the greatest mean of "
        "squares so far; remove amsgrad from the solver, or start from the weights alone with "
        "--weights");
  const auto types = UpdateRule::names(3);
  const bool can = std::ranges::any_of(
      types, [&](const std::string& type) { return type.starts_with(run.type + " "); });
  if (has == 2 && blobs == with && can)
    throw Error(
        "the state is of a run with amsgrad: it has a third history; set amsgrad: true, or start "
        "from the weights alone with --weights");
}

/// Restarts the data sources that have another number of records than in the state, and warns of
/// them: the position belongs to an order of other records.
void restart_changed(const SolverState& state, const TrainingState& run, RecordCursors& cursors) {
  for (const auto& cursor : state.data_cursor()) {
    for_sources(run, [&](const std::string& name, DataSource& source) {
      const auto now = static_cast<uint64_t>(source.records());
      if (name != cursor.layer() || cursor.records() == 0 || now == 0 || now == cursor.records())
        return;
      source.restart();
      cursors.of.erase(name);
      run.train->context().log(
          Severity::warning, text("the data of '", name, "' changed: it has ", now,
                                  " records, and had ", cursor.records(),
                                  " in the run of the snapshot; it starts from the beginning. Give "
                                  "the source of that run to continue as without a break"));
    });
  }
}

}  // namespace

RecordCursors data_cursors(const TrainingState& run) {
  RecordCursors cursors;
  for_sources(run, [&](const std::string& name, const DataSource& source) {
    cursors.of[name] = source.cursor();
    cursors.records[name] = source.records();
  });
  for_carrying_layers(run, [&](const std::string& name, const CarriesState& layer) {
    cursors.states[name] = layer.carried();
  });
  return cursors;
}

void set_data_cursors(const TrainingState& run, const RecordCursors& cursors) {
  for_sources(run, [&](const std::string& name, DataSource& source) {
    const auto found = cursors.of.find(name);
    if (found != cursors.of.end()) source.set_cursor(found->second);
  });
  for_carrying_layers(run, [&](const std::string& name, CarriesState& layer) {
    const auto found = cursors.states.find(name);
    if (found != cursors.states.end()) layer.carry(found->second);
  });
}

std::string snapshot_stem(const std::string& prefix, int iteration) {
  return text(prefix, "_iter_", iteration);
}

size_t saved_bytes(const Net& net, bool with_diffs) {
  size_t bytes = 0;
  for (const Layer* layer : net.layers()) {
    for (const auto& parameter : layer->params()) {
      const auto count = static_cast<size_t>(parameter->shape().count());
      const bool has_diff = with_diffs && parameter->learnable;
      bytes += count * size_of(parameter->data.dtype()) * (has_diff ? 2 : 1);
    }
  }
  return bytes;
}

std::string write_snapshot(const std::string& prefix, const TrainingState& run,
                           const SnapshotForm& form) {
  const std::string stem = snapshot_stem(prefix, run.iteration), format = form.hdf5 ? ".h5" : "";
  const std::string weights = stem + ".caffemodel" + format;
  // All of them are on the disk before the first one replaces another: a disk that is full leaves
  // an earlier snapshot of this name whole.
  std::vector<std::pair<std::string, SyncedFile>> files;
  NetParameter net;
  save_weights(run, form.with_diffs, net);
  files.emplace_back(weights, SyncedFile(weights, net));

  SolverState state;
  state.set_iter(run.iteration);
  *state.mutable_origin() = net.origin();
  if (run.origin != nullptr && !run.origin->run().empty())
    state.mutable_origin()->set_run(run.origin->run());
  state.set_learned_net(weights);
  state.set_learned_net_values(values_checksum(net));
  if (run.average) {
    const std::string average = stem + "_ema.caffemodel" + format;
    {
      const WeightAverage::InNet shown(run.average, true);
      save_weights(run, false, net);
    }
    files.emplace_back(average, SyncedFile(average, net));
    state.set_average_net(average);
    state.set_average_net_values(values_checksum(net));
  }
  state.set_type(run.type);
  state.set_current_step(run.steps_passed);
  state.set_minimum_loss(run.plateau.minimum);
  state.set_iter_last_event(run.plateau.last_event);
  for (const double loss : run.losses) state.add_recent_loss(loss);
  if (run.loss_scale) state.set_loss_scale(*run.loss_scale);
  if (run.loss_scale_held > 0) state.set_loss_scale_held(run.loss_scale_held);
  state.set_net(run.train->name());
  if (run.keeper) run.keeper->save(run.iteration, run.best, state);
  if (run.early_stop) run.early_stop->save(state);
  if (run.seconds) state.set_seconds(*run.seconds);
  if (run.rollbacks > 0) {
    state.set_rate_factor(run.rate_factor);
    state.set_rollbacks(run.rollbacks);
    state.set_rollback_to(run.rollback_to);
  }
  if (run.halved_batch) state.set_halved_batch(true);
  for (const Tensor& history : *run.history) {
    for (const auto& segment : run.train->params().segments()) {
      save_values(part_of(history, segment), *state.add_history());
    }
  }
  const RecordCursors cursors = run.cursors ? *run.cursors : data_cursors(run);
  for (const auto& [name, at] : cursors.of) {
    auto* cursor = state.add_data_cursor();
    cursor->set_layer(name);
    cursor->set_epoch(at.epoch);
    cursor->set_position(at.position);
    const auto records = cursors.records.find(name);
    if (records != cursors.records.end() && records->second > 0) {
      cursor->set_records(static_cast<uint64_t>(records->second));
    }
  }
  save_layer_states(cursors.states, state);
  if (run.processes > 1) state.set_processes(run.processes);
  state.set_seed(run.seed);
  for (const auto& [problem, choice] : run.train->context().tuner().choices()) {
    auto* record = state.add_tuning();
    record->set_problem(problem);
    record->set_choice(choice);
  }
  const std::string path = stem + ".solverstate" + format;
  files.emplace_back(path, SyncedFile(path, state));
  finish_all(files);
  return path;
}

void write_present_weights(const std::string& path, const TrainingState& run) {
  NetParameter net;
  save_weights(run, false, net);
  SyncedFile(path, net).finish();
}

std::vector<std::string> snapshots_of(const std::string& prefix, std::string* written_last) {
  struct Found {
    int iteration;
    fs::file_time_type time;
    std::string path;
  };
  std::vector<Found> found;
  const fs::path folder = fs::path(prefix).parent_path();
  const std::string stem = fs::path(prefix).filename().string() + "_iter_";
  std::error_code failed, ignored;  // the latter where a file is gone
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, failed), end; entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(stem)) continue;
    const size_t dot = std::min(name.find('.', stem.size()), name.size());
    const std::string ending = name.substr(dot);
    const auto iteration =
        parse_number<int>(std::string_view(name).substr(stem.size(), dot - stem.size()));
    if (!iteration || (ending != ".solverstate" && ending != ".solverstate.h5")) continue;
    found.push_back({*iteration, entry->last_write_time(ignored), (folder / name).string()});
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    throw Error("cannot look for snapshots '", prefix, "_iter_*': ", failed.message());
  // By iterations: copies of files may have any time.
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return std::tie(a.iteration, a.time) > std::tie(b.iteration, b.time);
  });
  if (!found.empty() && written_last != nullptr) {
    *written_last = std::ranges::max_element(found, {}, &Found::time)->path;
  }
  std::vector<std::string> paths;
  for (Found& snapshot : found) paths.push_back(std::move(snapshot.path));
  return paths;
}

std::string why_damaged(const std::string& path, bool average, SavedSnapshot* out) {
  SavedSnapshot read;
  read.path = path;
  const SolverState& state = read.state;
  try {
    read_state(path, read.state);
    read_weights_of_state(read, average);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const MemoryError&) {
    throw;
  } catch (const std::exception& error) {
    const fs::path beside = fs::path(path).parent_path();
    require_readable(path);
    for (const std::string& file : {state.learned_net(), state.average_net()}) {
      if (file.empty()) continue;
      require_readable((beside / fs::path(file).filename()).string());
      require_readable(file);
    }
    return error.what();
  }
  if (out != nullptr) *out = std::move(read);
  return "";
}

SavedSnapshot newest_whole_snapshot(const std::string& prefix, bool average, Context& context) {
  std::string newest, damage_of_newest;
  SavedSnapshot found;
  std::string written_last;
  for (const std::string& path : snapshots_of(prefix, &written_last)) {
    const std::string damage = why_damaged(path, average, &found);
    if (damage.empty()) {
      // Killed while a run that had gone back (on_nan) was removing the later states.
      SavedSnapshot last;
      if (path != written_last && why_damaged(written_last, average, &last).empty() &&
          last.state.rollbacks() > found.state.rollbacks() &&
          last.state.seed() == found.state.seed())
        return last;
      if (newest.empty() && path != written_last)
        context.log(Severity::warning,
                    text("'", path, "' has the most iterations, but '", written_last,
                         "' was written after it: by another run, unless the files are copies; "
                         "--snapshot ",
                         written_last, " continues from that one"));
      return found;
    }
    context.log(Severity::warning, text("the snapshot '", path, "' is passed over: ", damage));
    if (newest.empty()) {
      newest = path;
      damage_of_newest = damage;
    }
  }
  if (newest.empty()) return found;
  // A run from scratch would write over them.
  throw Error("none of the snapshots '", prefix, "_iter_*' can be continued from; the newest is '",
              newest, "': ", damage_of_newest,
              "; put whole files in their place, or move them away to start from scratch");
}

void read_state(const std::string& path, SolverState& state) {
  const Position place{path, 0, 0};
  if (path.ends_with(".caffemodel") || path.ends_with(".caffemodel.h5")) {
    throw Error(
        "that is a weights file; use --weights to start from it, or give the .solverstate "
        "to continue a run")
        .at(place);
  }
  read_solver_state(path, state);
  if (!state.has_iter() && state.history_size() == 0) {
    throw Error("holds no training state; give the .solverstate of a snapshot").at(place);
  }
  for (const auto& [name, value] :
       {std::pair{"iter", state.iter()}, std::pair{"current_step", state.current_step()},
        std::pair{"iter_last_event", state.iter_last_event()}}) {
    if (value < 0)
      throw Error("the state has ", name, " ", value,
                  ", which no run has; the file is damaged, take an earlier snapshot")
          .at(place);
  }
}

void restore_tuning(const SolverState& state, Context& context) {
  for (const auto& record : state.tuning()) {
    context.tuner().choose(record.problem(), record.choice());
  }
}

std::string weights_of(const SolverState& state, const std::string& path) {
  return beside_state(path, state.learned_net(), "", "weights");
}

std::string average_of(const SolverState& state, const std::string& path) {
  if (!state.has_average_net()) return "";
  return beside_state(path, state.average_net(), "_ema", "average of the weights");
}

void read_weights_of_state(SavedSnapshot& out, bool average) {
  const SolverState& state = out.state;
  out.weights_path = weights_of(state, out.path);
  read_weights(out.weights_path, out.weights);
  if (state.has_learned_net_values())
    check_values(out.weights, state.learned_net_values(), out.weights_path, out.path);
  out.average_path = average ? average_of(state, out.path) : "";
  if (out.average_path.empty()) return;
  read_weights(out.average_path, out.average);
  if (state.has_average_net_values())
    check_values(out.average, state.average_net_values(), out.average_path, out.path);
}

/// Error unless the classes that name labels are those of the run that wrote the state: a folder
/// more, or one less, would give the labels behind it another meaning.
void check_classes(const SolverState& state, const TrainingState& run) {
  const auto& were = state.origin().class_name();
  if (were.empty()) return;
  bool first = true;  // save_origin() names the classes of the first layer that has any
  for_sources(run, [&](const std::string& layer, const DataSource& source) {
    const std::vector<std::string> are = source.class_names();
    if (are.empty() || !first) return;
    first = false;
    const auto name = [](const auto& names, size_t label) {
      const bool known = label < static_cast<size_t>(names.size());
      return known ? text("'", *(names.begin() + static_cast<std::ptrdiff_t>(label)), "'")
                   : std::string("no class");
    };
    for (size_t label = 0; label < std::max(are.size(), static_cast<size_t>(were.size()));
         ++label) {
      if (name(are, label) == name(were, label)) continue;
      throw Error("label ", label, " was ", name(were, label),
                  " in the run that wrote the state, of ", were.size(), " classes, and is ",
                  name(are, label), " in the data of layer '", layer, "', of ", are.size(),
                  " classes; give that run's classes, in folders or in a file "
                  "that class_names names, or start from the weights alone with --weights");
    }
  });
}

void check_state(const SolverState& state, const TrainingState& run) {
  if (state.has_type() && state.type() != run.type)
    throw Error("the state is of a solver of type '", state.type(), "', this solver's is '",
                run.type, "'; set type: \"", state.type(),
                "\", or start from the weights alone with --weights");
  check_classes(state, run);
  const auto& segments = run.train->params().segments();
  const std::string nets = state.has_net() ? text(" (its net is '", state.net(), "', this one '",
                                                  run.train->name(), "')")
                                           : "";
  const size_t expected = segments.size() * run.history->size();
  const auto given = static_cast<size_t>(state.history_size());
  if (given != expected) check_amsgrad(given, segments.size(), run);
  if (given != expected)
    throw Error("the state has ", state.history_size(), " history blobs, this solver of type '",
                run.type, "' and this net need ", expected, "; it belongs to another net", nets,
                types_of(given, segments.size()));
  if (state.has_loss_scale() && !(state.loss_scale() > 0 && std::isfinite(state.loss_scale())))
    throw Error("the state has the loss_scale ", state.loss_scale(),
                ", and one has to be positive; the file is damaged, take an earlier snapshot");
  for (const auto& [name, value] :
       {std::pair{"seconds", state.seconds()}, std::pair{"rate_factor", state.rate_factor()},
        std::pair{"rollbacks", static_cast<double>(state.rollbacks())}}) {
    if (!(value >= 0 && std::isfinite(value)))
      throw Error("the state has ", name, " ", value,
                  ", which no run has; the file is damaged, take an earlier snapshot");
  }
  int blob = 0;
  for (size_t h = 0; h < run.history->size(); ++h) {
    for (const auto& segment : segments) {
      const int64_t count = blob_count(state.history(blob++));
      if (count != segment.count)
        throw Error("the state's history for parameter ", segment.index, " of layer '",
                    segment.layer, "' has ", count, " values, the net ", segment.count,
                    "; it belongs to another net", nets);
    }
  }
}

namespace {

/// What the layers of this process begin with. The states of samples are of the batches of one
/// process: other numbers of processes begin without them.
std::map<std::string, std::vector<Tensor>> states_of_rank(const SolverState& state,
                                                          const TrainingState& run) {
  std::map<std::string, std::vector<Tensor>> states = layer_states(state);
  const int saved = std::max(1, state.processes());
  if (saved != run.processes) {
    for_carrying_layers(run, [&](const std::string& name, const CarriesState& layer) {
      if (layer.is_of_batch()) states.erase(name);
    });
  } else if (run.rank > 0) {
    const std::string prefix = text("rank", run.rank, "/");
    std::map<std::string, std::vector<Tensor>> own;
    for (auto& [name, tensors] : states) {
      if (name.starts_with(prefix)) own[name.substr(prefix.size())] = std::move(tensors);
    }
    return own;
  }
  return states;
}

}  // namespace

void restore_state(const SolverState& state, TrainingState& run) {
  const auto& segments = run.train->params().segments();
  int blob = 0;
  for (Tensor& history : *run.history) {
    for (const auto& segment : segments) {
      Tensor part = part_of(history, segment);
      load_values(state.history(blob++), part);
    }
  }
  run.iteration = state.iter();
  run.loss_scale.reset();
  if (state.has_loss_scale()) run.loss_scale = state.loss_scale();
  run.loss_scale_held = state.loss_scale_held();
  run.plateau = {state.current_step(), state.minimum_loss(), state.iter_last_event()};
  run.losses.assign(state.recent_loss().begin(), state.recent_loss().end());
  RecordCursors cursors;
  for (const auto& cursor : state.data_cursor()) {
    cursors.of[cursor.layer()] = {cursor.epoch(), cursor.position()};
  }
  cursors.states = states_of_rank(state, run);
  restart_others(run, cursors);
  restart_changed(state, run, cursors);
  set_data_cursors(run, cursors);
}

}  // namespace crema
