#include "core/thread_limit.hpp"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "crema/error.hpp"

namespace crema {
namespace {

std::vector<std::string> split(const std::string& line, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(line);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& names, std::string_view wanted) {
  const std::vector<std::string> all = split(names, ',');
  return std::ranges::find(all, wanted) != all.end();
}

/// The control group of the process that has its time.
struct Group {
  bool unified = false;  // version 2
  std::string path;      // from the root of its hierarchy on
};

/// A line is "NUMBER:CONTROLLERS:PATH"; version 2 names no controllers.
std::vector<Group> own_groups(const std::string& root) {
  std::vector<Group> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (names.empty() || lists(names, "cpu"))
      groups.push_back({names.empty(), line.substr(second + 1)});
  }
  return groups;
}

struct Mount {
  std::string folder;  // where it is
  std::string shows;   // what of the hierarchy it shows
};

/// A line is "ID PARENT DEVICE ROOT FOLDER OPTIONS ... - TYPE SOURCE OPTIONS".
std::vector<Mount> mounts_of(const std::string& root, bool unified) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t mark = line.find(" - ");
    if (mark == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, mark), ' ');
    const std::vector<std::string> behind = split(line.substr(mark + 3), ' ');
    if (before.size() < 5 || behind.empty()) continue;
    const bool fits =
        unified ? behind[0] == "cgroup2" : behind[0] == "cgroup" && lists(behind.back(), "cpu");
    if (fits) mounts.push_back({before[4], before[3]});
  }
  return mounts;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double ratio(const std::string& time, const std::string& period) {
  double quota = 0, of = 0;
  std::istringstream(time) >> quota;
  std::istringstream(period) >> of;
  return quota > 0 && of > 0 ? quota / of : 0;
}

/// The cores that a folder of a hierarchy says, or 0: "max 100000" and -1 are no limit.
double quota_in(const std::string& folder, bool unified) {
  if (!unified)
    return ratio(first_line(folder + "/cpu.cfs_quota_us"),
                 first_line(folder + "/cpu.cfs_period_us"));
  const std::vector<std::string> words = split(first_line(folder + "/cpu.max"), ' ');
  return words.size() == 2 ? ratio(words[0], words[1]) : 0;
}

/// The least quota of a group and of those around it.
double least_quota(const std::string& root, const Mount& mount, const Group& group) {
  // A container often sees its own group as the root of all, and may see the path that it has
  // outside of it.
  std::string path = group.path;
  if (mount.shows != "/" && path.starts_with(mount.shows)) path.erase(0, mount.shows.size());
  double least = 0;
  while (true) {
    while (path.ends_with('/')) path.pop_back();
    const double quota = quota_in(root + mount.folder + path, group.unified);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    if (path.empty()) return least;
    path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

}  // namespace

int ThreadLimit::threads() const {
  constexpr double kRounding = 0.01;  // of quotas that are given in percent
  const int by_quota =
      quota > 0 ? static_cast<int>(std::ceil(std::min<double>(quota, kMaxThreads) - kRounding))
                : kMaxThreads;
  return std::clamp(std::min(allowed, by_quota), 1, kMaxThreads);
}

std::string ThreadLimit::str() const {
  const int used = threads();
  const std::string all = text(cores, cores == 1 ? " core" : " cores");
  if (used < allowed)
    return text(used, " of ", all, ": cgroup quota ", std::lround(100 * quota), "%");
  if (allowed < cores) return text(used, " of ", all, ": affinity");
  return all;
}

ThreadLimit thread_limit(const std::string& root) {
  ThreadLimit limit;
  limit.allowed = std::max(omp_get_num_procs(), 1);
  limit.cores = std::max(static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), limit.allowed);
  for (const Group& group : own_groups(root)) {
    for (const Mount& mount : mounts_of(root, group.unified)) {
      const double quota = least_quota(root, mount, group);
      if (quota > 0) limit.quota = limit.quota > 0 ? std::min(limit.quota, quota) : quota;
    }
  }
  return limit;
}

}  // namespace crema
