// The program's own teams of threads.
#include "tools/team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace crema::tools {
namespace {

template <class Body>
void run(ThreadTeam& team, int shares, Body body) {
  team.run([](void* data) { (*static_cast<Body*>(data))(); }, &body, shares);
}

TEST(ThreadTeam, RunsEachShareOnce) {
  for (const bool spins : {true, false}) {
    ThreadTeam team(spins);
    for (const int shares : {2, 5, 3, 1, 5}) {
      for (int i = 0; i < 300; ++i) {
        std::vector<std::atomic<int>> calls(static_cast<size_t>(shares));
        run(team, shares, [&] {
          const ThreadTeam::Here& here = ThreadTeam::here();
          ASSERT_EQ(here.team, &team);
          ASSERT_EQ(here.shares, shares);
          ++calls[static_cast<size_t>(here.share)];
        });
        for (const auto& count : calls) ASSERT_EQ(count, 1);
      }
    }
    EXPECT_EQ(ThreadTeam::here().team, nullptr);
  }
}

// What bodies write is there when run() returns.
TEST(ThreadTeam, ResultsAreThereAtTheEnd) {
  ThreadTeam team;
  std::vector<int64_t> parts(4);
  for (int64_t i = 0; i < 20'000; ++i) {
    run(team, 4, [&] { parts[static_cast<size_t>(ThreadTeam::here().share)] = i; });
    ASSERT_EQ(parts, std::vector<int64_t>(4, i));
  }
}

// A thread that does not come holds nobody up. Between regions that follow each other at once,
// threads that sleep take longer to wake than the owner needs for all shares.
TEST(ThreadTeam, SharesOfLateThreadsAreRunByTheOwner) {
  ThreadTeam team(false);
  const auto owner = std::this_thread::get_id();
  int others_by_owner = 0;
  for (int i = 0; i < 2000 && others_by_owner == 0; ++i) {
    run(team, 2, [&] {
      if (std::this_thread::get_id() == owner && ThreadTeam::here().share == 1) ++others_by_owner;
    });
  }
  EXPECT_GT(others_by_owner, 0);
}

TEST(ThreadTeam, BarriersWaitForAllShares) {
  for (const bool spins : {true, false}) {
    ThreadTeam team(spins);
    std::atomic<int> before = 0, wrong = 0;
    constexpr int kShares = 3, kRounds = 500;
    run(team, kShares, [&] {
      for (int round = 1; round <= kRounds; ++round) {
        ++before;
        ThreadTeam::here().team->barrier();
        if (before < round * kShares) ++wrong;
        ThreadTeam::here().team->barrier();
      }
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(before, kShares * kRounds);
  }
}

TEST(ThreadTeam, RegionsInsideHaveOneShare) {
  ThreadTeam team;
  std::atomic<int> inside = 0;
  run(team, 2, [&] {
    const ThreadTeam::Here outer = ThreadTeam::here();
    ThreadTeam::run_inside(
        [](void* data) {
          const ThreadTeam::Here& here = ThreadTeam::here();
          if (here.share == 0 && here.shares == 1) ++*static_cast<std::atomic<int>*>(data);
        },
        &inside);
    EXPECT_EQ(ThreadTeam::here().share, outer.share);
    EXPECT_EQ(ThreadTeam::here().shares, 2);
  });
  EXPECT_EQ(inside, 2);
}

TEST(ThreadTeam, ThreadsStayFromRegionToRegion) {
  ThreadTeam team;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 200; ++i) {
    run(team, 3, [&] {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  EXPECT_LE(threads.size(), 3u);
}

TEST(ThreadTeam, ThreadsHaveTeamsOfTheirOwn) {
  std::vector<std::thread> owners;
  std::atomic<int> wrong = 0;
  for (int o = 0; o < 3; ++o) {
    owners.emplace_back([&wrong] {
      ThreadTeam team;
      for (int i = 0; i < 2000; ++i) {
        std::atomic<int> sum = 0;
        run(team, 2, [&] { sum += 1 + ThreadTeam::here().share; });
        if (sum != 3) ++wrong;
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace crema::tools
