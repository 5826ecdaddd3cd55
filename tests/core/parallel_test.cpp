// Loops over threads: what is cut, who runs it, and that no thread ends on the way.
#include "core/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace crema {
namespace {

using Piece = std::pair<int64_t, int64_t>;

/// The pieces of one loop in order, and the threads that ran them.
struct Loop {
  std::set<Piece> pieces;
  std::set<std::thread::id> threads;
};

Loop run(int64_t count, int64_t grain) {
  Loop result;
  std::mutex mutex;
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    result.pieces.insert({begin, end});
    result.threads.insert(std::this_thread::get_id());
  });
  return result;
}

std::atomic<int> threads_ended = 0;

struct Scratch {
  ~Scratch() { ++threads_ended; }
  int used = 0;
};

void use_scratch() {
  thread_local Scratch scratch;
  ++scratch.used;
}

// A team that shrank ended its threads: 98 in this loop.
TEST(ParallelFor, LoopsOfFewAndManyPiecesEndNoThreads) {
  // On a thread of its own: the pool of threads is the calling thread's.
  std::thread caller([] {
    const ThreadScope threads(4);
    const int before = threads_ended;
    for (int i = 0; i < 50; ++i) {
      for (const int64_t pieces : {2, 4}) {
        parallel_for(pieces, 1, [](int64_t, int64_t) { use_scratch(); });
      }
    }
    EXPECT_EQ(threads_ended, before);
  });
  caller.join();
}

TEST(ParallelFor, PiecesDependOnCountGrainAndTeamAlone) {
  const ThreadScope threads(3);
  EXPECT_EQ(run(9, 1).pieces, (std::set<Piece>{{0, 3}, {3, 6}, {6, 9}}));
  EXPECT_EQ(run(2, 1).pieces, (std::set<Piece>{{0, 1}, {1, 2}}));
  EXPECT_EQ(run(9, 5).pieces, (std::set<Piece>{{0, 4}, {4, 9}}));
  EXPECT_EQ(run(9, 0).pieces.size(), 3U);
  EXPECT_TRUE(run(0, 1).pieces.empty());
}

TEST(ParallelFor, OnePieceRunsOnTheCaller) {
  const ThreadScope threads(3);
  const Loop one = run(9, 9);
  EXPECT_EQ(one.pieces, (std::set<Piece>{{0, 9}}));
  EXPECT_EQ(one.threads, (std::set<std::thread::id>{std::this_thread::get_id()}));
}

TEST(ParallelFor, ALoopWithinALoopIsOnePiece) {
  const ThreadScope threads(2);
  std::atomic<int> pieces = 0;
  parallel_for(
      2, 1, [&](int64_t, int64_t) { parallel_for(100, 1, [&](int64_t, int64_t) { ++pieces; }); });
  EXPECT_EQ(pieces, 2);
}

TEST(ParallelFor, ThrowsWhatAPieceThrew) {
  const ThreadScope threads(2);
  EXPECT_THROW(parallel_for(2, 1,
                            [](int64_t begin, int64_t) {
                              if (begin == 1) throw std::runtime_error("second");
                            }),
               std::runtime_error);
}

TEST(ThreadScope, GivesTheCallerItsSettingBack) {
  const int before = omp_get_max_threads();
  {
    const ThreadScope threads(before + 1);
    EXPECT_EQ(omp_get_max_threads(), before + 1);
    const ThreadScope one(1);
    EXPECT_EQ(run(100, 1).pieces.size(), 1U);
  }
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace crema
