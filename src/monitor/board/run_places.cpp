#include "monitor/board/run_places.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "monitor/run_folder.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRuns = 5000;
constexpr int kDeepest = 4;  // folders below that of the runs

/// Whether a path, whose links are followed, lies in the folder `root`, whose links are.
bool lies_in(const fs::path& path, const fs::path& root) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed) return false;
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  return end == root.end();
}

bool is_file_of_pages(const std::string& name) {
  static const std::set<std::string> names = {"run.json",    "metrics.jsonl",   "histograms.jsonl",
                                              "log.txt",     "solver.prototxt", "net.prototxt",
                                              "report.html", "evaluation.json", "layers.json"};
  constexpr std::string_view kTestNet = "test_net_", kEnding = ".prototxt";
  if (!name.starts_with(kTestNet) || !name.ends_with(kEnding)) return names.contains(name);
  // Names go into headers and links.
  const std::string number =
      name.substr(kTestNet.size(), name.size() - kTestNet.size() - kEnding.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
}

/// What of a run's files leads out of `root`; "" if none does.
std::string problem_of(const fs::path& folder, const fs::path& root) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (!is_file_of_pages(name)) continue;
    if (entry->is_symlink(unknown) && !lies_in(entry->path(), root))
      return text(printable(name), " is a link that leads out of the folder of runs");
    if (!entry->is_regular_file(unknown)) return text(printable(name), " is no file");
  }
  return failed ? text("the folder cannot be read: ", failed.message()) : "";
}

void add_runs(const fs::path& folder, const std::string& id, const fs::path& root, int depth,
              std::vector<RunPlace>& places) {
  std::error_code failed;
  std::vector<fs::path> folders;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code unknown;
    if (entry->is_directory(unknown) && !entry->path().filename().native().starts_with('.'))
      folders.push_back(entry->path());
  }
  for (const fs::path& path : folders) {
    if (places.size() >= kMostRuns) return;
    const std::string name = path.filename().string();
    const std::string own_id = id.empty() ? name : id + "/" + name;
    std::error_code unknown;
    const bool is_link = fs::is_symlink(path, unknown);
    if (is_link && !lies_in(path, root)) {
      if (is_run_folder(path.string()))
        places.push_back({own_id, path.string(), "it is a link out of the folder of runs"});
    } else if (is_run_folder(path.string())) {
      places.push_back({own_id, path.string(), problem_of(path, root)});
    } else if (!is_link && depth < kDeepest) {
      add_runs(path, own_id, root, depth + 1, places);
    }
  }
}

/// Numbers in names count as numbers: "lenet-9" is before "lenet-10".
bool is_before(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, k = 0;
  while (i < a.size() && k < b.size()) {
    if (digit(a[i]) && digit(b[k])) {
      const auto number = [&](const std::string& name, size_t& at) {
        while (at + 1 < name.size() && name[at] == '0' && digit(name[at + 1])) ++at;
        const size_t begin = at;
        while (at < name.size() && digit(name[at])) ++at;
        return name.substr(begin, at - begin);
      };
      const std::string x = number(a, i), y = number(b, k);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else if (a[i] != b[k]) {
      return a[i] < b[k];
    } else {
      ++i;
      ++k;
    }
  }
  return a.size() - i < b.size() - k;
}

void add_state(const fs::path& path, std::string& all) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return;
  all += text(path.filename().string(), ' ', state.st_size, ' ', state.st_mtim.tv_sec, '.',
              state.st_mtim.tv_nsec, ' ', state.st_ino, '\n');
}

bool is_weights_name(const std::string& name) {
  return name.ends_with(".caffemodel") || name.ends_with(".caffemodel.h5");
}

/// The name without what all weights end with.
std::string stem_of(std::string name) {
  if (name.ends_with(".h5")) name.resize(name.size() - 3);
  if (name.ends_with(".caffemodel")) name.resize(name.size() - 11);
  return name;
}

}  // namespace

std::vector<RunPlace> find_runs(const std::string& root) {
  std::error_code failed;
  const fs::path real = fs::canonical(root, failed);
  if (failed) return {};
  if (is_run_folder(real.string()))
    return {{real.filename().string(), real.string(), problem_of(real, real)}};
  std::vector<RunPlace> places;
  add_runs(real, "", real, 1, places);
  std::ranges::sort(places, is_before, &RunPlace::id);
  return places;
}

std::string state_of_files(const RunPlace& place) {
  std::string all = place.problem + "\n";
  for (const char* name : {"run.json", "metrics.jsonl", "histograms.jsonl", "evaluation.json",
                           "layers.json", "log.txt", "solver.prototxt", "net.prototxt"})
    add_state(fs::path(place.folder) / name, all);
  std::error_code failed;
  std::vector<fs::path> weights;
  for (fs::directory_iterator entry(fs::path(place.folder) / kRunSnapshots, failed), end;
       !failed && entry != end; entry.increment(failed))
    weights.push_back(entry->path());
  std::ranges::sort(weights);
  for (const fs::path& path : weights) add_state(path, all);
  return all + (is_run_alive(place.folder) ? "alive" : "");
}

std::vector<PlacedWeights> weights_in_run(const RunPlace& place, const RunFiles& run) {
  const fs::path snapshots = fs::path(place.folder) / kRunSnapshots;
  std::map<std::string, int> iterations;
  for (const RunRecord& event : run.events) {
    if (event.kind() == RunRecord::SNAPSHOT && event.has_weights())
      iterations[fs::path(event.weights()).filename().string()] = event.iteration();
  }
  std::vector<PlacedWeights> found;
  std::set<fs::path> folders;
  std::error_code failed;
  for (fs::directory_iterator entry(snapshots, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    const fs::path real = fs::canonical(entry->path(), unknown);
    if (unknown || !is_weights_name(name) || !fs::is_regular_file(real, unknown)) continue;
    std::string words = stem_of(name);
    const auto iteration = iterations.find(real.filename().string());
    if (iteration != iterations.end())
      words += text(", iteration ", iteration->second);
    else if (name.starts_with("best.") && run.best() != nullptr)
      words += text(", iteration ", run.best()->iteration());
    found.push_back({name, words, real.string()});
    folders.insert(real.parent_path());
  }
  std::ranges::sort(found, {}, &PlacedWeights::name);
  // What else the run recorded there, the newest first.
  std::vector<PlacedWeights> others;
  for (const auto& [name, iteration] : iterations) {
    if (!is_weights_name(name)) continue;
    for (const fs::path& folder : folders) {
      std::error_code unknown;
      const fs::path file = folder / name;
      if (fs::is_symlink(file, unknown) || !fs::is_regular_file(file, unknown)) continue;
      others.push_back({name, text(stem_of(name), ", iteration ", iteration), file.string()});
      break;
    }
  }
  std::ranges::sort(others, [&](const PlacedWeights& a, const PlacedWeights& b) {
    return iterations[a.name] > iterations[b.name];
  });
  for (PlacedWeights& one : others) {
    if (std::ranges::count(found, one.name, &PlacedWeights::name) == 0)
      found.push_back(std::move(one));
  }
  return found;
}

std::vector<std::string> readable_files(const RunPlace& place) {
  std::vector<std::string> names;
  if (!place.problem.empty()) return names;
  std::error_code failed;
  for (fs::directory_iterator entry(place.folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code unknown;
    const std::string name = entry->path().filename().string();
    if (is_file_of_pages(name) && entry->is_regular_file(unknown)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::string last_lines(const std::string& path, int lines) {
  constexpr std::streamoff kMostBytes = 128 << 10;
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown)) return "";
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  const std::streamoff from = std::max<std::streamoff>(0, size - kMostBytes);
  file.seekg(from);
  std::string all(static_cast<size_t>(size - from), '\0');
  file.read(all.data(), static_cast<std::streamsize>(all.size()));
  all.resize(static_cast<size_t>(file.gcount()));
  size_t begin = all.size();
  for (int k = 0; k <= lines && begin != std::string::npos && begin > 0; ++k)
    begin = all.rfind('\n', begin - 1);
  if (begin != std::string::npos && begin > 0) return all.substr(begin + 1);
  // The first line may be cut.
  return from > 0 ? all.substr(std::min(all.find('\n'), all.size())) : all;
}

}  // namespace crema
