// The program: finds the command among the words, and reports errors.
#include "tools/program.hpp"

#include <fcntl.h>
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "core/path_advice.hpp"
#include "core/utf8.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/data_advice.hpp"
#include "tools/flags.hpp"
#include "tools/help.hpp"
#include "tools/interruption.hpp"
#include "tools/output_file.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

/// Error where glog cannot write its files: it says so with no reason, and goes on without them.
void check_log_folder() {
  if (FLAGS_log_dir.empty()) return;
  std::string probe = FLAGS_log_dir + "/crema.XXXXXX";
  const int file = ::mkstemp(probe.data());
  if (file < 0)
    throw Error("--log_dir=", FLAGS_log_dir, ": no file can be made there: ", std::strerror(errno),
                path_advice(FLAGS_log_dir, "make the folder, or name another one"));
  ::close(file);
  ::unlink(probe.c_str());
}

/// Error unless all that was printed is written.
void finish_output() {
  const bool failed_before = std::ferror(stdout) != 0 || !std::cout.good();
  errno = 0;
  const bool fails = std::fflush(stdout) != 0 || !std::cout.flush().good();
  if (!failed_before && !fails) return;
  // Of lines that were lost before, the reason is lost too.
  const int reason = errno;
  throw Error("standard output cannot be written",
              reason != 0 ? text(": ", std::strerror(reason)) : "");
}

int run(const Command& command, const std::vector<std::string>& arguments, const CommandLine& line,
        const char* program) {
  set_flags(command, line);
  check_log_folder();
  google::InitGoogleLogging(program);
  use_plain_lines();
  load_plugins();
  const int status = command.run(arguments);
  finish_output();
  return status;
}

/// `crema help` with these words behind it.
void help_on(const std::vector<std::string>& names) {
  if (names.empty()) return print_help();
  if (names.size() > 1)
    throw Error("help is of one command, layer type or topic, and not also of '", names[1], "'");
  if (print_topic(names[0])) return;
  if (const Command* const command = find_command(names[0])) return print_help(*command);
  std::vector<std::string> known = topic_names();
  for (const ListedCommand& listed : commands()) known.push_back(listed.command->name);
  throw Error("there is no command, layer type or topic '", names[0], "'",
              did_you_mean(names[0], known), "; `crema help` lists them");
}

/// What to do where the command, or none (null), has no memory left.
std::string advice_on_memory(const Command* command) {
  const NetUse nets = command != nullptr ? command->nets : NetUse::none;
  std::string advice;
  if (nets == NetUse::runs) {
    advice = "use a smaller batch_size or smaller inputs (`crema summary` prints what a net needs)";
  } else if (nets == NetUse::builds) {
    advice = "use a smaller batch_size or smaller inputs";
  } else {
    advice = "end other programs";
    if (command != nullptr && std::ranges::count(command->flags, "threads") > 0)
      advice += ", use fewer --threads";
  }
  return advice + ", or raise the limit, if there is one (ulimit -v)";
}

int report(const std::exception& error, int status, const Command* command = nullptr) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    std::cerr << "crema: memory ran out; " << advice_on_memory(command) << "\n";
    return status;
  }
  const auto* const known = dynamic_cast<const Error*>(&error);
  std::cerr << "crema: " << printable_message(error.what())
            << (known != nullptr ? advice_on_missing_data(*known) : "") << "\n";
  return status;
}

/// What a flag of the published program caffe does not do for this command. Its commands share all
/// flags, and each passes over those that it does not read.
void pass_over_unread(const Command& command, CommandLine& line) {
  constexpr const char* kFlags[] = {"gpu",        "solver",        "model",        "phase",
                                    "level",      "stage",         "snapshot",     "weights",
                                    "iterations", "sigint_effect", "sighup_effect"};
  std::erase_if(line.flags, [&](const CommandLine::Flag& flag) {
    const bool passes = std::ranges::count(kFlags, flag.name) > 0 &&
                        std::ranges::count(command.flags, flag.name) == 0;
    if (passes)
      std::cerr << "crema: " << command.name << " has no use for --" << flag.name
                << ", and passes over it\n";
    return passes;
  });
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  // Called by a published name (a link to this program), the command is the name.
  const std::string called = std::filesystem::path(argv[0]).filename().string();
  if (called != "crema" && find_command(called)) words.insert(words.begin(), called);
  if (words.empty()) {
    print_help();
    return 1;
  }
  // Published scripts put flags before the command, too.
  CommandLine line = read_command_line(words);
  std::vector<std::string> arguments = line.arguments;
  bool wants_help = line.has_flag("help") || line.has_flag("h");
  if (!arguments.empty() && arguments[0] == "help") {
    wants_help = true;
    arguments.erase(arguments.begin());
    if (!arguments.empty() && arguments[0] == "help") arguments.clear();
  }
  if (wants_help) {
    help_on(arguments);
    finish_output();
    return 0;
  }
  if (line.has_flag("version")) {
    std::cout << "crema " << gflags::VersionString() << "\n";
    finish_output();
    return 0;
  }
  if (arguments.empty())
    throw Error("there is no command among these words; `crema help` lists them");
  const Command& command = need_command(arguments[0]);
  set_called_by_published_name(arguments[0] != command.name);
  arguments.erase(arguments.begin());
  if (called_as_caffe()) pass_over_unread(command, line);
  try {
    return run(command, arguments, line, argv[0]);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    return report(error, command.error_status, &command);
  }
}

/// A file that is opened gets the number of a standard stream that is closed, and lines that are
/// printed there would land in it. Opened for the other direction, the stream still fails to the
/// one that uses it.
void hold_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // The least free number, so this one.
    [[maybe_unused]] const int got =
        ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  hold_closed_streams();
  // A file that grows beyond a limit is an error that says so, not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  gflags::SetVersionString(CREMA_VERSION);
  // Sums of recurrent layers by cuDNN have one order then (backend/cuda/dnn_rnn.hpp).
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2", 0);
  FLAGS_alsologtostderr = true;
  FLAGS_colorlogtostderr = false;
  // Parsers of published logs expect the month first.
  FLAGS_log_year_in_prefix = false;
  try {
    use_installed_models();
    return run(argc, argv);
  } catch (const Interrupted& end) {
    std::cerr << "crema: stopped by signal " << end.signal()
              << " before the end; nothing was written\n";
    std::signal(end.signal(), SIG_DFL);
    std::raise(end.signal());
    return 128 + end.signal();
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

}  // namespace crema::tools
