// Answers requests with a trained net in several threads:
//
//   server deploy.prototxt weights.caffemodel [threads]
//
// A line of standard input is a request: the name of a PGM image. The answers come on standard
// output in the order of the requests, each as soon as the earlier answers are printed. A request
// that fails is answered with its error, and the server goes on. If an answer cannot be written,
// the server ends with an error. At the end of the input, standard error gets the number of
// requests and how long they took.
//
// Each thread (default: 4) has a runner of the net, since one thread at a time may use a net. The
// runners share one copy of the weights, and the context: it keeps no state of a run, and its
// threads are those that work on one pass, here 1, as the requests already keep all threads busy.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../pgm.hpp"
#include "crema/crema.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Answer {
  std::string text;
  bool failed;
  double seconds;  // since the request was read
};

struct Request {
  std::string image;
  Clock::time_point read;
  std::promise<Answer> answer;
};

/// Hands values from one thread to others, in order. At most `kMost` of them wait, so that a long
/// input does not fill the memory.
template <class T>
class Queue {
 public:
  void push(T value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < kMost; });
    waiting_.push_back(std::move(value));
    changed_.notify_all();
  }
  /// None when the queue is empty and the thread was asked to stop.
  std::optional<T> pop(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) return std::nullopt;
    std::optional<T> value(std::move(waiting_.front()));
    waiting_.pop_front();
    changed_.notify_all();
    return value;
  }

 private:
  static constexpr size_t kMost = 64;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<T> waiting_;
};

/// A net with an input of one image.
class Classifier {
 public:
  Classifier(crema::Net net, const std::string& deploy)
      : net_(std::move(net)),
        input_(digit_input(net_, deploy)),
        output_(only_one(net_.outputs(), "output", deploy)),
        sample_(net_.input(input_).shape()) {
    net_.reshape_input(input_, {1, 1, sample_[2], sample_[3]});
    net_.forward();  // plans the net and measures its kernels, before a request has to wait for it
  }

  std::string classify(const std::string& image) {
    read_digit(image, sample_[2], sample_[3], net_.input(input_).changing<float>());
    net_.forward();
    const crema::Tensor output = net_.output(output_);
    const auto scores = output.values<float>();
    const auto best = std::ranges::max_element(scores);
    char text[64];
    std::snprintf(text, sizeof text, ": %d (%.3f)", static_cast<int>(best - scores.begin()),
                  static_cast<double>(*best));
    return image + text;
  }

 private:
  crema::Net net_;
  std::string input_, output_;
  crema::Shape sample_;  // (any, 1, H, W)
};

/// Counts answers, and their times in bins. It does not grow with the requests, as a server may run
/// for months.
class Statistics {
 public:
  void add(const Answer& answer) {
    const double bin = std::log(answer.seconds / kFirst) / std::log(kGrowth);
    ++bins_[static_cast<size_t>(std::clamp(bin, 0.0, kBins - 1.0))];
    most_ = std::max(most_, answer.seconds);
    ++count_;
    failed_ += answer.failed;
  }
  int64_t count() const { return count_; }
  int64_t failed() const { return failed_; }
  /// The seconds that a part of the answers, 0 to 1, did not exceed; at most 2% too many. There has
  /// to be an answer.
  double seconds(double part) const {
    auto before = static_cast<int64_t>(part * static_cast<double>(count_ - 1));
    size_t bin = 0;
    while (before >= bins_[bin]) before -= bins_[bin++];
    return std::min(kFirst * std::pow(kGrowth, static_cast<double>(bin + 1)), most_);
  }

 private:
  static constexpr size_t kBins = 1200;   // the last one begins at five hours
  static constexpr double kFirst = 1e-6;  // where the first one begins; shorter times are in it too
  static constexpr double kGrowth = 1.02;  // the end of each by its begin
  std::array<int64_t, kBins> bins_{};
  double most_ = 0;
  int64_t count_ = 0, failed_ = 0;
};

void work(const std::stop_token& stop, Classifier& classifier, Queue<Request>& requests) {
  while (std::optional<Request> request = requests.pop(stop)) {
    Answer answer{};
    try {
      answer.text = classifier.classify(request->image);
    } catch (const std::exception& error) {
      answer.text = request->image + ": error: " + error.what();
      answer.failed = true;
    }
    answer.seconds = std::chrono::duration<double>(Clock::now() - request->read).count();
    request->answer.set_value(std::move(answer));
  }
}

/// Prints the answers in the order of the queue and counts them.
void print(const std::stop_token& stop, Queue<std::future<Answer>>& answers,
           Statistics& statistics) {
  while (std::optional<std::future<Answer>> next = answers.pop(stop)) {
    const Answer answer = next->get();
    std::cout << answer.text << std::endl;  // at once: a client may be waiting for it
    if (!std::cout) {
      // The client may wait for this answer, and the main thread for the next request: nothing
      // would end that but the end of the process.
      std::cerr << "server: cannot write to standard output; is the disk full?\n";
      std::_Exit(1);
    }
    statistics.add(answer);
  }
}

void serve(const std::string& deploy, const std::string& weights, int threads) {
  crema::Context context({.threads = 1, .tuning_file = crema::user_tuning_file()});
  std::vector<std::unique_ptr<Classifier>> classifiers;
  crema::Net net(deploy, context, {.phase = crema::Phase::test});
  const std::vector<std::string> missing = net.load_weights(weights).missing;
  if (!missing.empty())
    throw crema::Error("'", weights, "' has no weights for ", crema::joined(missing), " of '",
                       deploy, "'; give weights that were trained for this net");
  digit_input(net, deploy);  // an error if the net has none
  for (int i = 0; i < threads; ++i)
    classifiers.push_back(std::make_unique<Classifier>(net.runner(), deploy));

  Statistics statistics;
  const Clock::time_point start = Clock::now();
  {
    Queue<Request> requests;
    Queue<std::future<Answer>> answers;
    // The destructor of a jthread asks it to stop and waits for it: first the workers, which empty
    // the queue of requests, then the printer.
    std::jthread printer([&](const std::stop_token& stop) { print(stop, answers, statistics); });
    std::vector<std::jthread> workers;
    workers.reserve(classifiers.size());
    for (const auto& classifier : classifiers)
      workers.emplace_back([&](const std::stop_token& stop) { work(stop, *classifier, requests); });
    for (std::string image; std::getline(std::cin, image);) {
      Request request{image, Clock::now(), {}};
      answers.push(request.answer.get_future());
      requests.push(std::move(request));
    }
  }
  const double all = std::chrono::duration<double>(Clock::now() - start).count();
  const auto count = static_cast<long long>(statistics.count());
  std::fprintf(stderr, "%lld requests, %lld failed, %d threads, %.3f s\n", count,
               static_cast<long long>(statistics.failed()), threads, all);
  if (count == 0) return;
  const auto ms = [&](double part) { return 1000 * statistics.seconds(part); };
  std::fprintf(
      stderr,
      "%.0f requests/s; ms from request to answer: median %.2f, 90%% %.2f, 99%% %.2f, most %.2f\n",
      static_cast<double>(count) / all, ms(0.5), ms(0.9), ms(0.99), ms(1));
}

void run(const std::vector<std::string>& args) {
  constexpr const char* usage = "usage: server deploy.prototxt weights.caffemodel [threads]";
  if (args.size() != 2 && args.size() != 3) throw crema::Error(usage);
  int threads = 4;
  if (args.size() == 3) {
    const std::string& text = args[2];
    threads =
        text.size() <= 3 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })
            ? std::atoi(text.c_str())
            : 0;
    if (threads < 1)
      throw crema::Error("'", text, "' is no number of threads from 1 to 999; ", usage);
  }
  serve(args[0], args[1], threads);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "server: " << error.what() << "\n";
    return 1;
  }
}
