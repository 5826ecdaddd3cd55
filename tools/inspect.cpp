// crema inspect: what a file of weights, a solver's state, a mean image or a database holds.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "data/boxes/annotation.hpp"
#include "data/databases/open_database.hpp"
#include "data/databases/record_info.hpp"
#include "data/records/datum.hpp"
#include "model/array_file.hpp"
#include "model/blob_message.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

struct Fact {
  std::string name, value;
  bool is_number = false;
};

/// What a file says of where it comes from; null if it says nothing.
const Origin* origin_of(const ArrayFile& file) {
  if (file.kind == ArrayFile::Kind::weights && file.weights.has_origin())
    return &file.weights.origin();
  if (file.kind == ArrayFile::Kind::state && file.state.has_origin()) return &file.state.origin();
  return nullptr;
}

/// "(pixel - 104,117,123) * 0.017": what data layers made of images.
std::string images_of(const Origin& origin) {
  const TransformationParameter& transform = origin.transform();
  std::vector<std::string> means;
  for (const float mean : transform.mean_value()) means.push_back(json_number(mean));
  std::string all = transform.has_mean_file() ? "pixel - " + transform.mean_file()
                    : means.empty()           ? "pixel"
                                              : "pixel - " + joined(means, ",");
  if (transform.scale() == 1) return all;
  return text(means.empty() && !transform.has_mean_file() ? all : "(" + all + ")", " * ",
              json_number(transform.scale()));
}

void print_origin(const Origin& origin) {
  constexpr int kMostNames = 10;
  const auto line = [](const char* what, const std::string& value) {
    if (!value.empty()) std::printf("%s: %s\n", what, printable(value).c_str());
  };
  line("written by", origin.program());
  line("solver's file", origin.solver());
  line("net's file", origin.net());
  line("settings of the command line", joined(origin.setting()));
  line("frozen layers", joined(origin.frozen()));
  if (origin.has_transform()) line("images", images_of(origin));
  const int names = origin.class_name_size();
  if (names == 0) return;
  const auto& all = origin.class_name();
  line(
      "class names",
      text(names, ": ", joined(std::vector(all.begin(), all.begin() + std::min(names, kMostNames))),
           names > kMostNames ? ", ..." : ""));
}

std::string json_of(const Origin& origin) {
  std::vector<std::string> parts, names;
  const auto part = [&](const char* name, const std::string& value) {
    if (!value.empty()) parts.push_back(text(json_string(name), ": ", json_string(value)));
  };
  part("program", origin.program());
  part("solver", origin.solver());
  part("net", origin.net());
  const auto list = [&](const char* name, const auto& values) {
    std::vector<std::string> texts;
    for (const std::string& value : values) texts.push_back(json_string(value));
    if (!texts.empty()) parts.push_back(text(json_string(name), ": [", joined(texts), "]"));
  };
  list("settings", origin.setting());
  list("frozen", origin.frozen());
  if (origin.has_transform()) part("images", images_of(origin));
  for (const std::string& name : origin.class_name()) names.push_back(json_string(name));
  if (!names.empty()) parts.push_back(text("\"class_names\": [", joined(names), "]"));
  return text("{", joined(parts), "}");
}

/// Of the training: the last test, and the best one by snapshot_best.
void add_tests(const Origin& origin, std::vector<Fact>& facts) {
  for (const Origin::Tested& tested : origin.tested()) {
    const std::string net = tested.net() > 0 ? text(" of test net ", tested.net()) : "";
    facts.push_back({text("tested ", tested.output(), net),
                     text(tested.value(), " at iteration ", origin.tested_at())});
  }
  if (!origin.has_best_output()) return;
  facts.push_back(
      {"best " + origin.best_output(),
       text(origin.best_value(),
            origin.has_best_iteration() ? text(" at iteration ", origin.best_iteration()) : "")});
}

/// What stands beside the arrays of weights and states.
std::vector<Fact> facts_of(const ArrayFile& file) {
  std::vector<Fact> facts;
  const auto number = [&](const char* name, auto value) {
    facts.push_back({name, text(value), true});
  };
  const Origin* const origin = origin_of(file);
  if (file.kind == ArrayFile::Kind::weights && file.weights.has_name()) {
    facts.push_back({"net", file.weights.name()});
  }
  if (file.kind == ArrayFile::Kind::weights && origin != nullptr) {
    if (origin->has_iteration()) number("iteration", origin->iteration());
    add_tests(*origin, facts);
  }
  if (file.kind != ArrayFile::Kind::state) return facts;
  const SolverState& state = file.state;
  number("iteration", state.iter());
  number("steps of the learning rate", state.current_step());
  if (state.has_learned_net()) facts.push_back({"weights", state.learned_net()});
  if (state.has_type()) facts.push_back({"solver's type", state.type()});
  if (origin != nullptr) add_tests(*origin, facts);
  if (state.has_seed()) number("seed", state.seed());
  for (const DataCursor& cursor : state.data_cursor()) {
    facts.push_back({"position of " + cursor.layer(),
                     text("epoch ", cursor.epoch(), ", record ", cursor.position())});
  }
  for (const LayerState& layer : state.layer_state()) {
    facts.push_back({"state of " + layer.layer(), text(layer.state_size(), " arrays")});
  }
  if (state.tuning_size() != 0) number("engines chosen", state.tuning_size());
  return facts;
}

/// Whether the array holds another number of values than its shape.
bool is_damaged(const FileArray& array, const ArrayStatistics& of) {
  return of.count != blob_shape(*array.blob).count();
}

/// All arrays together.
struct Totals {
  int64_t values = 0, bytes = 0, nans = 0, infinities = 0;
  int damaged = 0;

  void add(const FileArray& array, const ArrayStatistics& of) {
    values += of.count;
    bytes += value_bytes(*array.blob);
    nans += of.nans;
    infinities += of.infinities;
    damaged += is_damaged(array, of);
  }
};

/// Returns how many are damaged.
int print_arrays(const ArrayFile& file) {
  int name = 5, type = 4, shape = 5;
  for (const FileArray& array : file.arrays) {
    name = std::max(name, static_cast<int>(printable(array.owner).size()));
    type = std::max(type, static_cast<int>(printable(array.type).size()));
    shape = std::max(shape, static_cast<int>(blob_shape(*array.blob).str().size()));
  }
  std::printf("\n%-*s %-*s %3s %-*s %9s %11s %11s %11s %11s %9s\n", name, "layer", type, "type",
              "#", shape, "shape", "bytes", "min", "max", "mean", "std", "zeros");
  Totals totals;
  for (const FileArray& array : file.arrays) {
    const ArrayStatistics of = statistics_of(*array.blob);
    totals.add(array, of);
    std::printf("%-*s %-*s %3d %-*s %9s %11.4g %11.4g %11.4g %11.4g %9lld", name,
                printable(array.owner).c_str(), type, printable(array.type).c_str(), array.index,
                shape, blob_shape(*array.blob).str().c_str(),
                human_bytes(static_cast<double>(value_bytes(*array.blob))).c_str(), of.least,
                of.greatest, of.mean, of.deviation, static_cast<long long>(of.zeros));
    if (of.nans != 0) std::printf(" NaN: %lld", static_cast<long long>(of.nans));
    if (of.infinities != 0) std::printf(" inf: %lld", static_cast<long long>(of.infinities));
    if (is_damaged(array, of)) {
      std::printf(" damaged: %lld values", static_cast<long long>(of.count));
    }
    std::printf("\n");
  }
  std::printf("\n%zu arrays, %lld values, %s; %lld NaN, %lld infinite\n", file.arrays.size(),
              static_cast<long long>(totals.values),
              human_bytes(static_cast<double>(totals.bytes)).c_str(),
              static_cast<long long>(totals.nans), static_cast<long long>(totals.infinities));
  if (totals.damaged != 0)
    std::printf("%d arrays hold another number of values than their shapes\n", totals.damaged);
  return totals.damaged;
}

std::string json_of(const FileArray& array, const ArrayStatistics& of) {
  const std::vector<int64_t> dims = blob_shape(*array.blob).dims();
  return text("{\"layer\": ", json_string(array.owner), ", \"type\": ", json_string(array.type),
              ", \"index\": ", array.index, ", \"shape\": [", joined(dims), "]",
              ", \"values\": ", of.count, ", \"bytes\": ", value_bytes(*array.blob),
              ", \"min\": ", json_number(of.least), ", \"max\": ", json_number(of.greatest),
              ", \"mean\": ", json_number(of.mean), ", \"std\": ", json_number(of.deviation),
              ", \"zeros\": ", of.zeros, ", \"nan\": ", of.nans, ", \"inf\": ", of.infinities,
              is_damaged(array, of) ? ", \"damaged\": true}" : "}");
}

std::string json_of(const std::vector<Fact>& facts) {
  std::string json;
  for (const Fact& fact : facts) {
    json += text(", ", json_string(fact.name), ": ",
                 fact.is_number ? fact.value : json_string(fact.value));
  }
  return json;
}

void print_facts(const std::string& path, const std::string& kind, const std::vector<Fact>& facts) {
  std::printf("%s: %s\n", printable(path).c_str(), printable(kind).c_str());
  for (const Fact& fact : facts) {
    std::printf("%s: %s\n", printable(fact.name).c_str(), printable(fact.value).c_str());
  }
}

/// Returns how many arrays are damaged.
int inspect_arrays(const std::string& path) {
  ArrayFile file;
  read_net_arrays(path, file);
  const std::vector<Fact> facts = facts_of(file);
  const Origin* const origin = origin_of(file);
  if (!FLAGS_json) {
    print_facts(path, text(file.describe(), ", ", file.format), facts);
    if (origin != nullptr) print_origin(*origin);
    return print_arrays(file);
  }
  std::vector<std::string> arrays;
  int damaged = 0;
  for (const FileArray& array : file.arrays) {
    const ArrayStatistics of = statistics_of(*array.blob);
    damaged += is_damaged(array, of);
    arrays.push_back(json_of(array, of));
  }
  const std::string from = origin != nullptr ? ", \"origin\": " + json_of(*origin) : "";
  std::printf("{\"file\": %s, \"kind\": %s, \"format\": %s%s%s, \"arrays\": [%s]}\n",
              json_string(path).c_str(), json_string(file.describe()).c_str(),
              json_string(file.format).c_str(), json_of(facts).c_str(), from.c_str(),
              joined(arrays).c_str());
  return damaged;
}

/// The first record stands for all: `crema verify-db` reads each of them.
void inspect_database(const std::string& path) {
  const auto source = open_database({.path = path});
  const auto reader = source->reader(ReadOrder::forward);
  const Record record = reader->read(0);
  const std::string key = printable_key(record.key);
  const size_t bytes = record.value.size();
  DatumDecoder decoder(ColorMode::as_stored, {}, Depth::own);
  const Image image = decoder.decode(record);
  const bool floats = image.floats != nullptr;
  const std::string pixels =
      text(image.shape().str(), decoder.was_encoded() ? " image file" : " raw",
           !floats                 ? " bytes"
           : decoder.was_encoded() ? " of more than 8 bits a channel"
                                   : " f32");
  std::string labels = text("label ", decoder.label());
  if (is_annotated(record.value)) {
    const RecordInfo info = inspect_record(record, decoder);
    if (info.has_boxes) labels = info.labels(", ");
  }
  const std::vector<Fact> facts = {
      {"records", text(source->count()), true},
      {"first key", key},
      {"first record", text(pixels, ", ", labels, ", ", bytes, " bytes")},
  };
  if (FLAGS_json) {
    std::printf("{\"file\": %s, \"kind\": \"database\", \"format\": %s%s}\n",
                json_string(path).c_str(), json_string(source->name()).c_str(),
                json_of(facts).c_str());
  } else {
    print_facts(path, "database, " + source->name(), facts);
  }
}

/// Returns whether all of it is whole.
bool inspect_file(const std::string& path) {
  std::error_code unknown;  // what is no folder is read, and says itself what is wrong with it
  const bool database = std::filesystem::is_directory(path, unknown) ||
                        std::filesystem::path(path).filename() == "data.mdb";
  if (!database) return inspect_arrays(path) == 0;
  inspect_database(path);
  return true;
}

int inspect(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    throw Error("inspect takes files, as in `crema inspect net.caffemodel`; there is none");
  int bad = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i != 0 && !FLAGS_json) std::printf("\n");
    const std::string& path = arguments[i];
    try {
      bad += !inspect_file(path);
    } catch (const std::bad_alloc&) {
      throw;  // no fault of the file
    } catch (const std::exception& error) {
      ++bad;
      std::fflush(stdout);
      std::cerr << "crema: " << printable_message(error.what()) << "\n";
      if (FLAGS_json) {
        std::printf("{\"file\": %s, \"error\": %s}\n", json_string(path).c_str(),
                    json_string(error.what()).c_str());
      }
    }
  }
  return bad > 0 ? 1 : 0;
}

}  // namespace

extern const Command kInspect = {
    "inspect",
    "shows what a weights file, solver state, mean image or database holds",
    "  crema inspect net.caffemodel\n"
    "  crema inspect --json net_iter_100.solverstate mean.binaryproto train_lmdb\n"
    "\n"
    "The kind of a file is told by its contents; of a model of ONNX (.onnx), the arrays are those "
    "of\n"
    "the layers that it becomes. For each array: layer, type, index, shape,\n"
    "bytes, least and greatest value, mean, standard deviation, zeros, NaN and infinite values.\n"
    "For a state: iteration, seed, positions in the data. Files that say so have the iteration,\n"
    "the last and the best test, the program, the solver, the net and the settings that they were\n"
    "made with, and the names of the classes. For a database: records, first key, shape of the\n"
    "first record. With --json, one line a file, in which bytes\n"
    "of names that are no UTF-8 are U+FFFD. A file that cannot be read gets a message, with\n"
    "--json also a line with file and error, and the next one follows. Exit status 1 if there is\n"
    "one, or if an array holds another number of values than its shape.",
    {"json"},
    inspect};

}  // namespace crema::tools
