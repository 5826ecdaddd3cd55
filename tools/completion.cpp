// crema completion: prints the script with which a shell completes command lines of crema. All that
// the scripts know is written into them, so a shell starts no program while somebody types.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/help.hpp"
#include "tools/pages.hpp"
#include "tools/shown_flags.hpp"

namespace crema::tools {
namespace {

constexpr const char* kShells[] = {"bash", "zsh", "fish"};

/// What may stand behind a command beside flags.
struct Arguments {
  std::vector<std::string> words;
  bool files = false;
};

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const ListedCommand& listed : commands()) names.push_back(listed.command->name);
  return names;
}

Arguments arguments_of(const std::string& command) {
  if (command == "manual") return {command_names()};
  if (command == "help") {
    Arguments names{command_names()};
    std::ranges::copy(topic_names(), std::back_inserter(names.words));
    return names;
  }
  if (command == "completion") return {{std::begin(kShells), std::end(kShells)}};
  if (command == "db") return {{"list", "show", "export"}, true};
  if (command != "layers") return {{}, true};
  Arguments types;
  for (const Page& page : pages()) types.words.push_back(page.type);
  return types;
}

std::vector<ShownFlag> all_flags(const Command& command) {
  std::vector<ShownFlag> flags = own_flags(command);
  for (ShownFlag& flag : shared_flags()) flags.push_back(std::move(flag));
  return flags;
}

struct Spelling {
  std::string word;     // "--fuse"
  std::string summary;  // of what it says
};

/// A switch that is on without it may be turned off, too.
std::vector<Spelling> spellings(const ShownFlag& flag) {
  std::vector<Spelling> all = {{spelled_flag(flag.name), flag.summary()}};
  if (flag.is_on_by_default())
    all.push_back({text("--no_", flag.name), text("Not: ", flag.summary())});
  return all;
}

/// The text between single quotes of bash and zsh.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string with_backslashes(const std::string& text, std::string_view marked) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || marked.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// --- bash ----------------------------------------------------------------------------------------

constexpr const char* kBashHead =
    R"(# Completion of bash for crema, written by `crema completion bash`.
_crema() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} command='' words='' flags='' files='' i
  # bash takes --FLAG=VALUE for three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  fi
  # Flags may be spelled with - for _.
  if [[ $word == --* ]]; then
    word=${word#--}
    word=--${word//-/_}
  fi
  if [[ $flag == --* ]]; then
    flag=${flag#--}
    flag=--${flag//-/_}
  fi
)";

constexpr const char* kBashTail = R"(      [[ $word != -* ]] || words=$flags files=
      ;;
  esac
  COMPREPLY=()
  while IFS= read -r i; do
    COMPREPLY+=("$i")
  done < <(compgen -W "$words" -- "$word"; [[ ! $files ]] || compgen "$files" -- "$word")
  [[ ! $files ]] || compopt -o filenames 2>/dev/null
}
complete -F _crema crema
)";

void print_bash() {
  std::cout << kBashHead << "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
            << "    case ${COMP_WORDS[i]} in\n      help | " << joined(command_names(), " | ")
            << ")\n        command=${COMP_WORDS[i]}\n        break\n        ;;\n    esac\n  done\n"
            << "  case $flag in\n";
  // What a flag takes is the same for all commands.
  std::vector<std::string> done, files, folders, others;
  for (const ListedCommand& listed : commands()) {
    for (const ShownFlag& flag : all_flags(*listed.command)) {
      if (flag.takes == FlagValue::none || std::ranges::count(done, flag.name) > 0) continue;
      done.push_back(flag.name);
      const std::string word = spellings(flag).front().word;
      if (flag.takes == FlagValue::words) {
        std::cout << "    " << word << ") words=" << quoted(joined(flag.words, " ")) << " ;;\n";
      } else {
        (flag.takes == FlagValue::file     ? files
         : flag.takes == FlagValue::folder ? folders
                                           : others)
            .push_back(word);
      }
    }
  }
  std::cout << "    " << joined(files, " | ") << ") files=-f ;;\n"
            << "    " << joined(folders, " | ") << ") files=-d ;;\n"
            << "    " << joined(others, " | ") << ") ;;\n"
            << "    *)\n      case $command in\n        '') flags='--help --version' words="
            << quoted(joined(command_names(), " ") + " help") << " ;;\n"
            << "        help) words=" << quoted(joined(arguments_of("help").words, " ")) << " ;;\n";
  for (const ListedCommand& listed : commands()) {
    std::vector<std::string> flags = {"--help"};
    for (const ShownFlag& flag : all_flags(*listed.command)) {
      for (Spelling& spelling : spellings(flag)) flags.push_back(std::move(spelling.word));
    }
    const Arguments arguments = arguments_of(listed.command->name);
    std::cout << "        " << listed.command->name
              << ")\n          flags=" << quoted(joined(flags, " ")) << "\n";
    if (!arguments.words.empty())
      std::cout << "          words=" << quoted(joined(arguments.words, " ")) << "\n";
    if (arguments.files) std::cout << "          files=-f\n";
    std::cout << "          ;;\n";
  }
  std::cout << "      esac\n" << kBashTail;
}

// --- zsh -----------------------------------------------------------------------------------------

/// What _arguments calls for a value or an argument: ":file:_files".
std::string zsh_action(const Arguments& arguments) {
  const std::string words = text("(", joined(arguments.words, " "), ")");
  if (!arguments.files) return ":word:" + words;
  if (arguments.words.empty()) return ":file:_files";
  return ":word or file: _alternative \"words:word:" + words + "\" \"files:file:_files\"";
}

std::string zsh_value(const ShownFlag& flag) {
  if (flag.takes == FlagValue::words) return zsh_action({flag.words});
  if (flag.takes == FlagValue::file) return zsh_action({{}, true});
  if (flag.takes == FlagValue::folder) return ":folder:_files -/";
  return flag.takes == FlagValue::number ? ":number: " : ":text: ";
}

void print_zsh_command(const std::string& name, const std::vector<ShownFlag>& flags) {
  std::cout << "    " << name << ")\n      _arguments '--help[all about the command]'";
  for (const ShownFlag& flag : flags) {
    for (const Spelling& spelling : spellings(flag)) {
      const bool is_switch = flag.takes == FlagValue::none;
      const std::string spec =
          text(spelling.word, is_switch ? "" : "=", "[", with_backslashes(spelling.summary, "[]"),
               "]", is_switch ? "" : zsh_value(flag));
      std::cout << " \\\n        " << quoted(spec);
    }
  }
  std::cout << " \\\n        " << quoted("*" + zsh_action(arguments_of(name))) << "\n      ;;\n";
}

void print_zsh() {
  std::cout << "#compdef crema\n# Completion of zsh for crema, written by `crema completion zsh`.\n"
            << "_crema() {\n  local -a commands=(\n";
  for (const ListedCommand& listed : commands()) {
    std::cout << "    " << quoted(listed.command->name + ":" + listed.command->summary) << "\n";
  }
  std::cout << "    'help:lists the commands, or says all about one'\n  )\n"
            << "  if ((CURRENT == 2)); then\n"
            << "    _describe command commands\n    return\n  fi\n"
            << "  shift words\n  ((--CURRENT))\n  case $words[1] in\n";
  print_zsh_command("help", {});
  for (const ListedCommand& listed : commands())
    print_zsh_command(listed.command->name, all_flags(*listed.command));
  // Found in $fpath, the file is the function's body; sourced, it defines the function.
  std::cout << "  esac\n}\n"
            << "if [[ ${funcstack[1]-} == _crema ]]; then\n  _crema \"$@\"\nelse\n"
            << "  compdef _crema crema\nfi\n";
}

// --- fish ----------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) { return "'" + with_backslashes(text, "'") + "'"; }

void print_fish_arguments(const std::string& when, const Arguments& arguments) {
  if (!arguments.words.empty())
    std::cout << when << " -a " << fish_quoted(joined(arguments.words, " ")) << "\n";
  if (arguments.files) std::cout << when << " -F\n";
}

void print_fish() {
  std::cout << "# Completion of fish for crema, written by `crema completion fish`.\n"
            << "complete -c crema -f\n";
  const std::string first = "complete -c crema -n __fish_use_subcommand";
  for (const ListedCommand& listed : commands()) {
    std::cout << first << " -a " << listed.command->name << " -d "
              << fish_quoted(listed.command->summary) << "\n";
  }
  std::cout << first << " -a help -d 'lists the commands, or says all about one'\n"
            << first << " -l version -d 'prints the version'\n"
            << "complete -c crema -l help -d 'all about the command'\n";
  const auto when = [](const std::string& command) {
    return "complete -c crema -n '__fish_seen_subcommand_from " + command + "'";
  };
  print_fish_arguments(when("help"), arguments_of("help"));
  for (const ListedCommand& listed : commands()) {
    const std::string seen = when(listed.command->name);
    for (const ShownFlag& flag : all_flags(*listed.command)) {
      for (const Spelling& spelling : spellings(flag)) {
        std::cout << seen << " -l " << spelling.word.substr(2);
        if (flag.takes == FlagValue::file) std::cout << " -r -F";
        if (flag.takes == FlagValue::folder) std::cout << " -x -a '(__fish_complete_directories)'";
        if (flag.takes == FlagValue::words)
          std::cout << " -x -a " << fish_quoted(joined(flag.words, " "));
        if (flag.takes == FlagValue::number || flag.takes == FlagValue::text) std::cout << " -x";
        std::cout << " -d " << fish_quoted(spelling.summary) << "\n";
      }
    }
    print_fish_arguments(seen, arguments_of(listed.command->name));
  }
}

int completion(const std::vector<std::string>& arguments) {
  const std::string shell = arguments.size() == 1 ? arguments[0] : "";
  if (shell == "bash") {
    print_bash();
  } else if (shell == "zsh") {
    print_zsh();
  } else if (shell == "fish") {
    print_fish();
  } else {
    throw Error("completion takes one shell: bash, zsh or fish",
                arguments.empty() ? "" : ", and not '" + joined(arguments, " ") + "'");
  }
  return 0;
}

}  // namespace

extern const Command kCompletion = {
    "completion",
    "prints the script that completes command lines in bash, zsh or fish",
    "  crema completion bash >~/.local/share/bash-completion/completions/crema\n"
    "  crema completion zsh >FOLDER_OF_FPATH/_crema\n"
    "  crema completion fish >~/.config/fish/completions/crema.fish\n"
    "\n"
    "An installed crema brings these files along. For one shell alone: eval \"$(crema completion\n"
    "bash)\", or `crema completion fish | source`.",
    {},
    completion};

}  // namespace crema::tools
