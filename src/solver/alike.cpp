#include "solver/alike.hpp"

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "core/data_source.hpp"
#include "core/utf8.hpp"
#include "crema/parameter_arena.hpp"
#include "model/origin.hpp"
#include "proto/layer.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool is_path(const std::string& field) {
  for (const char* const ending : {"source", "file", "folder", "dir"}) {
    if (field == ending || field.ends_with(std::string("_") + ending)) return true;
  }
  return false;
}

void clear_paths(Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (is_path(std::string(field->name()))) message.GetReflection()->ClearField(&message, field);
    } else if (field->message_type() != nullptr && !field->is_repeated()) {
      clear_paths(*message.GetReflection()->MutableMessage(&message, field));
    }
  }
}

/// Not DebugString(), which newer releases make different in each process.
std::string text_of(const Message& message, bool in_one_line) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(in_one_line);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<std::string> description_of(const SolverParameter& solver, uint64_t seed,
                                        const Net& net) {
  std::vector<std::string> lines = {text("the program: ", program_version()),
                                    text("the seed: ", seed)};
  SolverParameter settings = solver;
  settings.clear_snapshot_prefix();
  settings.clear_net();
  settings.clear_train_net();
  settings.clear_test_net();
  settings.clear_weights();
  for (const std::string& line : lines_of(text_of(settings, false)))
    lines.push_back("the solver: " + line);
  lines.push_back("the net: " + net.name());
  for (const Layer* layer : net.layers()) {
    LayerParameter param = layer->param();
    clear_paths(param);
    lines.push_back("the net: layer { " + text_of(param, true) + " }");
    for (const auto& parameter : layer->params())
      lines.push_back(text("the net: a parameter of layer '", layer->name(), "' of ",
                           parameter->shape().str(), parameter->needs_gradient ? "" : ", frozen"));
    const DataSource* const source = layer->data_source();
    if (source == nullptr) continue;
    const int64_t records = source->records();
    lines.push_back(text("the data of layer '", layer->name(), "': ", records, " records, ",
                         source->records_per_batch(), " in a batch",
                         records > 0
                             ? text(", from '", printable(source->key_of_record(0)), "' to '",
                                    printable(source->key_of_record(records - 1)), "'")
                             : ""));
  }
  return lines;
}

void check_alike(Communicator& processes, const std::vector<std::string>& lines) {
  std::string first = joined(lines, "\n");
  processes.broadcast(first, 0);
  const std::vector<std::string> wanted = lines_of(first);
  std::string difference;
  for (size_t i = 0; i < std::max(lines.size(), wanted.size()) && difference.empty(); ++i) {
    const std::string here = i < lines.size() ? lines[i] : "nothing more";
    const std::string there = i < wanted.size() ? wanted[i] : "nothing more";
    if (here != there) difference = text("\"", here, "\", and not \"", there, "\"");
  }
  const std::vector<std::string> all = processes.all_gather(difference);
  for (int rank = 0; rank < processes.size(); ++rank) {
    const std::string& found = all[static_cast<size_t>(rank)];
    if (found.empty()) continue;
    throw Error("the processes do not train the same: ", processes.name_of(rank), " has ", found,
                " as ", processes.name_of(0),
                "; start all of them with the same program, solver, net and data");
  }
}

}  // namespace crema
