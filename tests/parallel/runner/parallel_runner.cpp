// One of the processes of tests/parallel, started by mpirun:
//
//   parallel_runner operations
//   parallel_runner speed          prints how fast sums are; no test
//   parallel_runner train [--KEY=VALUE...] SOLVER OUT [SOLVER OUT...]
//
// `train` runs each solver to its end, and writes all parameters of each process to OUT.RANK.
// "%" in the name of a solver becomes the rank.
#include <omp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/convert.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/random.hpp"
#include "crema/solver.hpp"
#include "parallel/communicator.hpp"

namespace crema {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(what, " does not hold");
}

template <class T>
std::vector<T> values_of(int rank, int64_t count) {
  Random random(7, static_cast<uint64_t>(rank));
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(random.uniform(-1, 1));
  return values;
}

template <class T>
void check_sums(Communicator& all, int64_t count, double factor) {
  std::vector<T> sums = values_of<T>(all.rank(), count), expected = values_of<T>(0, count);
  all.all_reduce({.values = sums.data(), .count = count, .dtype = dtype_of<T>(), .factor = factor});
  for (int rank = 1; rank < all.size(); ++rank) {
    const std::vector<T> more = values_of<T>(rank, count);
    for (size_t i = 0; i < more.size(); ++i) expected[i] += more[i];
  }
  for (T& value : expected) value *= static_cast<T>(factor);
  require(sums == expected, text("the order of the sums of ", count, " elements"));
}

/// Eight bits of precision, and the same ones everywhere.
void check_short_sums(Communicator& all, int64_t count) {
  std::vector<float> sums = values_of<float>(all.rank(), count);
  all.all_reduce({.values = sums.data(), .count = count, .factor = 0.5, .as_bf16 = true});
  std::vector<double> expected(sums.size());
  for (int rank = 0; rank < all.size(); ++rank) {
    const std::vector<float> values = values_of<float>(rank, count);
    for (size_t i = 0; i < values.size(); ++i) expected[i] += 0.5 * static_cast<double>(values[i]);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    require(std::fabs(static_cast<double>(sums[i]) - expected[i]) < 0.01 * all.size(), "nearness");
    require(convert_value<float>(convert_value<bfloat16>(sums[i])) == sums[i], "8 bits of a sum");
  }
  const std::string own(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(float));
  for (const std::string& other : all.all_gather(own)) require(other == own, "equality of sums");
}

void run_operations(Communicator& all) {
  const int rank = all.rank(), size = all.size();
  for (const int64_t count : {0, 1, 3, 1000, 300001}) {
    check_sums<float>(all, count, 1);
    check_sums<float>(all, count, 1.0 / size);
    check_sums<double>(all, count, 1.0 / size);
  }
  check_short_sums(all, 70001);
  for (int root = 0; root < size; ++root) {
    std::vector<double> sent = values_of<double>(root, 1200001);  // two pieces and more
    std::vector<double> came = rank == root ? sent : std::vector<double>(sent.size());
    all.broadcast(came.data(), came.size() * sizeof(double), root);
    require(came == sent, text("a broadcast from ", root));
  }
  // Under way at the same time.
  std::vector<float> a = values_of<float>(rank, 500000), b = {static_cast<float>(rank)};
  const Communicator::Ticket first = all.start_all_reduce({.values = a.data(), .count = 500000});
  const Communicator::Ticket second = all.start_all_reduce({.values = b.data(), .count = 1});
  std::string text_of_first = rank == 0 ? "a text" : "";
  all.broadcast(text_of_first, 0);
  all.wait(second);
  all.wait(first);
  require(text_of_first == "a text", "a text");
  require(b[0] == static_cast<float>(size * (size - 1)) / 2, "a sum behind another");
  const std::vector<std::string> texts = all.all_gather(
      std::string(static_cast<size_t>(rank) * 100000, static_cast<char>('a' + rank)));
  for (int other = 0; other < size; ++other) {
    require(texts[static_cast<size_t>(other)] ==
                std::string(static_cast<size_t>(other) * 100000, static_cast<char>('a' + other)),
            "gathered texts");
  }
  require(all.greatest(rank == size / 2 ? 5 : -1) == 5, "the greatest value");
  const int partner = rank ^ 1;
  if (partner < size) {
    const std::vector<float> own = values_of<float>(rank, 3000001);
    std::vector<float> other(own.size());
    all.wait(all.start_exchange(partner, own.data(), other.data(), own.size() * sizeof(float)));
    require(other == values_of<float>(partner, 3000001), "an exchange");
  }
}

void print_speed(Communicator& all) {
  for (const int64_t count : {2, 2500, 250000, 6250000}) {
    std::vector<float> values(static_cast<size_t>(count), 1);
    double best = 1e9;
    for (int repetition = 0; repetition < 20; ++repetition) {
      const auto start = std::chrono::steady_clock::now();
      all.all_reduce({.values = values.data(), .count = count, .factor = 1.0 / all.size()});
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    if (all.rank() == 0)
      std::printf("%ld bytes: %.3f ms\n", static_cast<long>(4 * count), 1e3 * best);
  }
}

using Options = std::map<std::string, std::string>;

int number_in(const Options& options, const std::string& key) {
  const auto found = options.find(key);
  return found == options.end() ? -1 : std::stoi(found->second);
}

void train(const std::shared_ptr<Communicator>& processes, const Options& options, std::string file,
           const std::string& out) {
  const int rank = processes->rank();
  if (const size_t place = file.find('%'); place != std::string::npos)
    file.replace(place, 1, std::to_string(rank));
  Context context(
      {.threads = 1, .tune = false, .logger = [&](Severity severity, const std::string& message) {
         if (rank == 0 && severity > Severity::debug) std::cout << message << std::endl;
       }});
  SolverOptions how;
  how.dtype = options.count("f64") != 0 ? DType::f64 : DType::f32;
  how.processes = processes;
  Solver solver(file, context, how);
  if (options.count("resume") != 0) solver.resume();
  const int fails_at = number_in(options, "at"), failing = number_in(options, "rank");
  const std::string how_it_fails = options.count("by") != 0 ? options.at("by") : "";
  solver.before_iteration = [&] {
    if (rank != failing || solver.iteration() != fails_at) return;
    if (how_it_fails == "kill") ::raise(SIGKILL);
    if (how_it_fails == "stop") ::raise(SIGSTOP);
    if (how_it_fails == "hang") ::pause();
    if (how_it_fails == "error") throw Error("this process has had enough");
  };
  solver.poll = [&] {
    const bool asks = how_it_fails == "poll" && rank == failing && solver.iteration() == fails_at;
    return asks ? SolverAction::stop : SolverAction::none;
  };
  solver.on_test = [&](const TestReport& report) {
    for (const TestReport::Output& output : report.outputs) {
      if (rank == 0)
        std::printf("test %d %s %.15g\n", report.iteration, output.name.c_str(), output.value);
    }
    std::fflush(stdout);
  };
  solver.on_iteration = [&](const IterationReport& report) {
    if (rank == 0) std::printf("loss %d %.15g\n", report.iteration, report.loss);
    std::fflush(stdout);
  };
  solver.solve();
  if (rank == 0) std::cout << "ended at " << solver.iteration() << std::endl;
  std::ofstream file_out(out + "." + std::to_string(rank), std::ios::binary);
  const Tensor& values = solver.net().params().data();
  file_out.write(static_cast<const char*>(values.read_bytes()),
                 static_cast<std::streamsize>(values.bytes()));
}

int run(int argc, char** argv) {
  Options options;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      words.push_back(word);
      continue;
    }
    const size_t end = word.find('=');
    options[word.substr(2, end - 2)] = end == std::string::npos ? "" : word.substr(end + 1);
  }
  JoinOptions joining{.lost_after = 4};
  if (options.count("patience") != 0) joining.patience = std::stod(options["patience"]);
  const std::shared_ptr<Communicator> processes = join_processes(joining);
  if (processes == nullptr) throw Error("this is no process of mpirun");
  try {
    if (words.at(0) == "operations") run_operations(*processes);
    if (words.at(0) == "speed") print_speed(*processes);
    for (size_t i = 1; i + 1 < words.size(); i += 2)
      train(processes, options, words[i], words[i + 1]);
  } catch (const std::exception& error) {
    std::cout << processes->name_of(processes->rank()) << ": " << error.what() << std::endl;
    processes->abort(3);
  }
  if (processes->rank() == 0) std::cout << "all done" << std::endl;
  return 0;
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  try {
    return crema::run(argc, argv);
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 2;
  }
}
