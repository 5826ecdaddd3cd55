#include "tools/help.hpp"

#include <gflags/gflags.h>

#include <algorithm>
#include <sstream>

#include "crema/registry.hpp"
#include "proto/solver.pb.h"
#include "tools/columns.hpp"
#include "tools/command_line.hpp"
#include "tools/pages.hpp"
#include "tools/settings.hpp"
#include "tools/shown_flags.hpp"

namespace crema::tools {
namespace {

struct FlagGroup {
  const char* heading;
  std::vector<std::string_view> flags;
};

/// Those that several commands share; a command's other flags come first.
const std::vector<FlagGroup>& flag_groups() {
  static const std::vector<FlagGroup> groups = {
      {"net and weights",
       {"model", "solver", "weights", "snapshot", "allow_missing", "strict", "phase", "level",
        "stage", "plugin"}},
      {"images",
       {"list", "mean", "channel_mean", "scale", "channel_swap", "resize", "interp", "crop",
        "skip_bad", "batch"}},
      {"how it runs",
       {"gpu", "threads", "engine", "simd", "tune", "tuning_file", "retune", "fuse",
        "memory_budget", "no_cuda_graphs", "device_jpeg", "seed"}}};
  return groups;
}

std::string preset_of(const gflags::CommandLineFlagInfo& info) {
  if (info.default_value.empty() || info.default_value == "-1") return "";
  if (info.type != "double") return " [" + info.default_value + "]";
  return text(" [", std::stod(info.default_value), "]");
}

TableRow flag_row(const std::string& name, const std::string& command) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(name.c_str(), &info)) return {};
  const std::string takes = info.type == "bool" ? "" : "=" + info.type;
  const std::string words = words_for(info.description, command);
  const bool says_preset = words.find("Default: ") != std::string::npos;
  return {spelled_flag(name) + takes, words + (says_preset ? "" : preset_of(info))};
}

void print_flags(std::ostream& out, const char* heading, const Command& command,
                 const std::vector<std::string>& flags) {
  Table rows;
  for (const std::string& flag : flags) {
    if (TableRow row = flag_row(flag, command.name); !row.empty()) rows.push_back(std::move(row));
  }
  if (rows.empty()) return;
  out << "\n" << heading << ":\n";
  print_table(rows, out, terminal_width());
}

/// Paragraphs are wrapped; lines that begin with a space stay as they are.
void print_usage(std::ostream& out, const std::string& usage) {
  std::string paragraph;
  const auto end = [&] {
    if (paragraph.empty()) return;
    for (const std::string& line : wrapped(paragraph, terminal_width())) out << line << "\n";
    paragraph.clear();
  };
  for (const std::string& line : lines_of(usage)) {
    if (!line.empty() && line[0] != ' ') {
      paragraph += line + " ";
      continue;
    }
    end();
    out << line << "\n";
  }
  end();
}

struct Part {
  const char* heading;
  const google::protobuf::Descriptor* message;
};

struct Topic {
  const char* name;
  const char* summary;
  std::vector<Part> parts;
  const char* more;
};

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = {
      {"solver",
       "the settings of a solver's prototxt",
       {{"", SolverParameter::descriptor()}, {"early_stop { }", EarlyStopParameter::descriptor()}},
       "`crema help train` has the flags that go with them."},
      {"net",
       "the settings of a net's prototxt, and those that all layers have",
       {{"the net", NetParameter::descriptor()},
        {"layer { }", LayerParameter::descriptor()},
        {"layer { include { } exclude { } }", NetStateRule::descriptor()},
        {"layer { param { } }", ParamSpec::descriptor()},
        {"weight_filler { }, bias_filler { } and others", FillerParameter::descriptor()},
        {"layer { loss_param { } }", LossParameter::descriptor()}},
       "`crema layers` lists the layer types, and `crema layers TYPE` the settings of one."},
      {"data",
       "the settings of layers of type Data, and of what is done to images",
       {{"data_param { }", DataParameter::descriptor()},
        {"transform_param { }, of other data layers too", TransformationParameter::descriptor()},
        {"random_crop_param { }", RandomCropParameter::descriptor()},
        {"rotate_param { }", RotateParameter::descriptor()},
        {"blur_param { }", BlurParameter::descriptor()},
        {"erase_param { }", EraseParameter::descriptor()},
        {"mixup_param { }, cutmix_param { }", MixParameter::descriptor()},
        {"resize_param { }", ResizeParameter::descriptor()},
        {"distort_param { }", DistortionParameter::descriptor()},
        {"expand_param { }", ExpansionParameter::descriptor()},
        {"noise_param { }", NoiseParameter::descriptor()}},
       "`crema layers --like data` lists the other layers that read data; `crema layers TYPE` has "
       "the settings of one."}};
  return all;
}

/// Of a setting that holds others, such as early_stop. Returns whether there is one.
bool print_message_setting(const std::string& name) {
  for (const Topic& topic : topics()) {
    for (const Part& part : topic.parts) {
      const auto* const field = part.message->FindFieldByName(name);
      if (field == nullptr || field->message_type() == nullptr) continue;
      std::ostringstream out;
      const std::string title = text(name, " { }, of `crema help ", topic.name,
                                     "`; in [ ]: the value where none is given");
      for (const std::string& line : wrapped(title, terminal_width())) out << line << "\n";
      out << "\n";
      print_settings(*field->message_type(), out, terminal_width());
      print_whole(out.str());
      return true;
    }
  }
  return false;
}

}  // namespace

void print_help() {
  std::ostringstream out;
  out << "usage: crema COMMAND [FLAGS] [ARGUMENTS]\n";
  std::string_view heading;
  Table rows;
  const auto flush = [&] {
    if (!rows.empty()) print_table(rows, out, terminal_width());
    rows.clear();
  };
  for (const ListedCommand& listed : commands()) {
    if (listed.heading != heading) {
      flush();
      heading = listed.heading;
      out << "\n" << heading << ":\n";
    }
    rows.push_back({listed.command->name, listed.command->summary});
  }
  flush();
  out << "\nHelp:\n";
  rows = {{"help", "this list"},
          {"help COMMAND", "all about a command"},
          {"help LAYER", "the page of a layer type, such as Convolution"}};
  for (const Topic& topic : topics()) rows.push_back({text("help ", topic.name), topic.summary});
  flush();
  print_whole(out.str());
}

void print_help(const Command& command) {
  std::ostringstream out;
  out << "crema " << command.name << ": " << command.summary << "\n\n";
  print_usage(out, command.usage);
  std::vector<std::string> own = command.flags;
  for (const FlagGroup& group : flag_groups()) {
    std::erase_if(
        own, [&](const std::string& flag) { return std::ranges::count(group.flags, flag) > 0; });
  }
  print_flags(out, "flags", command, own);
  for (const FlagGroup& group : flag_groups()) {
    std::vector<std::string> shared;
    for (const std::string& flag : command.flags) {
      if (std::ranges::count(group.flags, flag) > 0) shared.push_back(flag);
    }
    print_flags(out, group.heading, command, shared);
  }
  print_whole(out.str());
}

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const Topic& topic : topics()) names.emplace_back(topic.name);
  for (const Page& page : pages()) names.push_back(page.type);
  return names;
}

bool print_topic(const std::string& name) {
  std::ostringstream out;
  const auto topic = std::ranges::find(topics(), name, &Topic::name);
  if (topic == topics().end()) {
    const Page* const page = Registry::instance().has(name) ? find_page(name) : nullptr;
    if (page != nullptr) print_whole(page->for_terminal(terminal_width()));
    return page != nullptr || print_message_setting(name);
  }
  const std::string title = text(topic->summary, "; in [ ]: the value where none is given");
  for (const std::string& line : wrapped(title, terminal_width())) out << line << "\n";
  for (const Part& part : topic->parts) {
    out << "\n";
    if (*part.heading != '\0') out << "== " << part.heading << "\n";
    print_settings(*part.message, out, terminal_width());
  }
  out << "\n";
  for (const std::string& line : wrapped(topic->more, terminal_width())) out << line << "\n";
  print_whole(out.str());
  return true;
}

}  // namespace crema::tools
