// crema manual: prints what `crema help` knows as pages for man, in the language of its macros.
#include <gflags/gflags.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "core/path_advice.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/shown_flags.hpp"

DEFINE_string(output, "", "Write all pages to this folder, which is made.");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// Text that is no macro and whose signs stay as they are: man makes typographic ones of some.
std::string escaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n')) result += "\\&";
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '~':
        result += "\\(ti";
        break;
      case '^':
        result += "\\(ha";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// "crema-train" is the name of the page.
std::string page_name(const std::string& command) { return text("crema-", command); }

std::string title(const std::string& page) {
  std::string upper = page;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text(".TH \"", escaped(upper), "\" 1 \"\" \"crema ", CREMA_VERSION, "\" \"Crema\"\n");
}

/// Lines of the usage: those that begin with blanks are examples and tables and stay as they are,
/// others are filled.
std::string usage_text(const std::string& usage) {
  std::string result;
  bool literal = false;
  std::istringstream lines(usage);
  for (std::string line; std::getline(lines, line);) {
    const bool is_literal = line.starts_with(' ');
    if (is_literal != literal) result += is_literal ? ".PP\n.nf\n" : ".fi\n";
    if (line.empty()) {
      result += ".PP\n";
    } else {
      result += escaped(line) + "\n";
    }
    literal = is_literal;
  }
  return result + (literal ? ".fi\n" : "");
}

std::string value_text(const ShownFlag& flag) {
  switch (flag.takes) {
    case FlagValue::none:
      return "";
    case FlagValue::file:
      return "FILE";
    case FlagValue::folder:
      return "FOLDER";
    case FlagValue::number:
      return "NUMBER";
    default:
      return "TEXT";
  }
}

std::string flags_text(const std::vector<ShownFlag>& flags) {
  std::string result;
  for (const ShownFlag& flag : flags) {
    const std::string value = value_text(flag);
    result += ".TP\n\\fB" + escaped(spelled_flag(flag.name)) + "\\fR";
    if (!value.empty()) result += text("=\\fI", value, "\\fR");
    result += text("\n", escaped(flag.description));
    if (!flag.default_value.empty()) result += escaped(text(" [", flag.default_value, "]"));
    result += "\n";
  }
  return result;
}

std::string page_of(const ListedCommand& listed) {
  const Command& command = *listed.command;
  // The synopsis is what the usage begins with.
  const size_t end = std::min(command.usage.find("\n\n"), command.usage.size());
  std::string names = page_name(command.name);
  for (const std::string_view published : listed.published) names += text(", ", published);
  std::string page = title(page_name(command.name));
  page += ".SH NAME\n" + escaped(names) + " \\- " + escaped(command.summary) + "\n";
  page += ".SH SYNOPSIS\n" + usage_text(command.usage.substr(0, end));
  if (end < command.usage.size())
    page += ".SH DESCRIPTION\n" + usage_text(command.usage.substr(end + 2));
  if (!command.flags.empty()) page += ".SH FLAGS\n" + flags_text(own_flags(command));
  page += text(".PP\nThe flags of all commands are in\n.BR crema (1).\n.SH EXIT STATUS\n0, or ",
               command.error_status, " after an error.\n.SH SEE ALSO\n.BR crema (1)\n");
  return page;
}

std::string page_of_crema() {
  std::string page = title("crema");
  page +=
      ".SH NAME\ncrema \\- trains, tests and runs neural nets in the published Caffe formats\n"
      ".SH SYNOPSIS\n.B crema\n.I COMMAND\n[\\fIFLAGS\\fR] [\\fIARGUMENTS\\fR]\n"
      ".SH COMMANDS\n";
  for (const ListedCommand& listed : commands()) {
    const std::string& name = listed.command->name;
    page += ".TP\n.BR " + escaped(page_name(name)) + " (1)\n" + escaped(listed.command->summary);
    for (const std::string_view published : listed.published)
      page += escaped(text("; also called as ", published));
    page += ".\n";
  }
  page +=
      ".TP\n.B crema help\n[\\fICOMMAND\\fR]: this list, or all about a command.\n"
      ".PP\nCalled by the name\n.BR caffe ,\ncrema takes the words of that program.\n"
      ".SH FLAGS\nEach command also takes these.\n"
      ".TP\n\\fB\\-\\-help\\fR\nThe same as\n.BR \"crema help\" .\n"
      ".TP\n\\fB\\-\\-version\\fR\nPrint the version.\n";
  page += flags_text(shared_flags());
  page +=
      ".SH ENVIRONMENT\n"
      ".TP\n.B CREMA_MODEL_PATH\nFolders of models, separated by colons.\n"
      ".TP\n.B CREMA_RUN_DIR\nThe folder of the run of crema train where no --run_dir says it, or "
      "none.\n"
      ".TP\n.B OMP_NUM_THREADS\nThe number of threads where no flag says it.\n"
      ".TP\n.B XDG_CACHE_HOME\nThe folder of the file of measured times, "
      "crema/tuning; without it, \\(ti/.cache.\n"
      ".SH SEE ALSO\n";
  for (const ListedCommand& listed : commands()) {
    page += ".BR " + escaped(page_name(listed.command->name)) +
            (&listed == &commands().back() ? " (1)\n" : " (1),\n");
  }
  return page;
}

void write(const fs::path& folder, const std::string& name, const std::string& page) {
  const fs::path path = folder / (name + ".1");
  std::ofstream file(path, std::ios::binary);
  file << page;
  if (!file.flush())
    throw Error("cannot write '", path.string(), "': ", std::strerror(errno),
                path_advice(path.string()));
  std::cout << name << ".1\n";
}

/// Published programs have pages that lead to ours.
void write_all(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("cannot make the folder '", folder.string(), "': ", failed.message());
  write(folder, "crema", page_of_crema());
  write(folder, "caffe", ".so man1/crema.1\n");
  for (const ListedCommand& listed : commands()) {
    const std::string name = page_name(listed.command->name);
    write(folder, name, page_of(listed));
    for (const std::string_view published : listed.published)
      write(folder, std::string(published), ".so man1/" + name + ".1\n");
  }
}

int manual(const std::vector<std::string>& arguments) {
  if (!FLAGS_output.empty()) {
    refuse_arguments("manual --output", arguments, "it writes the pages of all commands");
    write_all(FLAGS_output);
    return 0;
  }
  if (arguments.empty()) {
    std::cout << page_of_crema();
    return 0;
  }
  if (arguments.size() > 1)
    throw Error("manual takes one command, and not also '", arguments[1], "'");
  const Command& command = need_command(arguments[0]);
  std::cout << page_of(*std::ranges::find(commands(), &command, &ListedCommand::command));
  return 0;
}

}  // namespace

extern const Command kManual = {
    "manual",
    "prints a page for man",
    "  crema manual | man -l -\n"
    "  crema manual COMMAND | man -l -\n"
    "  crema manual --output FOLDER\n"
    "\n"
    "Without a command, the page of crema itself. --output writes all pages and prints their "
    "names;\n"
    "published programs have pages that lead to those of the commands. An installed crema\n"
    "brings all of them along: crema(1), crema-train(1) and so on.",
    {"output"},
    manual};

}  // namespace crema::tools
