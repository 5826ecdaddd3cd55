// crema models: lists the models that come with Crema, prints the page of one, or copies its files.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "model/model_folders.hpp"
#include "model/whole_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"

DEFINE_string(copy, "", "copy the model's files to this folder");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPage = "README.md";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() && !file.eof()) throw Error("cannot read '", path.string(), "'");
  return text;
}

/// The folder that is installed beside this program.
fs::path installed_folder() {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  return (program.parent_path() / CREMA_MODELS_FROM_PROGRAM).lexically_normal();
}

/// The first folder that holds a page of models.
fs::path models_folder() {
  std::vector<fs::path> candidates = {"models"};
  for (const std::string& folder : model_path()) candidates.emplace_back(folder);
  candidates.push_back(installed_folder());
  std::string tried;
  for (const fs::path& folder : candidates) {
    std::error_code none;
    if (fs::exists(folder / kPage, none)) return folder;
    tried += concat(tried.empty() ? "'" : ", '", folder.string(), "'");
  }
  throw Error("no models in ", tried, "; run crema in the root of its repository, or set ",
              kModelPath, " to a folder that holds models and their ", kPage);
}

using Row = std::vector<std::string>;

std::string stripped(std::string_view cell) {
  const auto is_edge = [](char c) { return c == ' ' || c == '`' || c == '\r'; };
  while (!cell.empty() && is_edge(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_edge(cell.back())) cell.remove_suffix(1);
  return std::string(cell);
}

/// The rows of the page's first table: its header, and a row for each model, whose first cell is
/// the name of its folder.
std::vector<Row> table_of(const fs::path& folder) {
  std::istringstream lines(read(folder / kPage));
  std::vector<Row> rows;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|')) {
      if (!rows.empty()) break;
      continue;
    }
    if (line.starts_with("|-")) continue;
    Row row;
    std::istringstream cells(line.substr(1));
    for (std::string cell; std::getline(cells, cell, '|');) {
      if (!stripped(cell).empty() || !cells.eof()) row.push_back(stripped(cell));
    }
    rows.push_back(row);
  }
  if (rows.size() < 2) throw Error("'", (folder / kPage).string(), "' has no table of models");
  return rows;
}

void list(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < std::min(row.size(), widths.size()); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    std::printf("%s\n", line.c_str());
  }
}

/// A prototxt names its other files by paths from the root of the repository: those of the copy lie
/// elsewhere.
std::string with_paths_of_copy(std::string text, const std::string& name,
                               const std::string& folder) {
  for (const char quote : {'"', '\''}) {
    const std::string from = concat(quote, "models/", name, "/"), to = concat(quote, folder, "/");
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

void copy(const fs::path& model, const std::string& name, std::string to) {
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  if (to.find_first_of("\"'\\\n") != std::string::npos)
    throw Error("--copy=", to, " cannot stand in a prototxt; give a name without quotes or \\");
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(model)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(model));
  }
  std::ranges::sort(files);
  // Nothing is written before all of it may be.
  for (const fs::path& file : files) {
    const fs::path target = to / file;
    if (fs::exists(target) && !FLAGS_overwrite)
      throw Error("'", target.string(), "' exists; give another folder, or --overwrite");
  }
  for (const fs::path& file : files) {
    const fs::path target = to / file;
    std::error_code why;
    fs::create_directories(target.parent_path(), why);
    if (why) throw Error("cannot make '", target.parent_path().string(), "': ", why.message());
    std::string text = read(model / file);
    if (file.extension() == ".prototxt") text = with_paths_of_copy(std::move(text), name, to);
    WholeFile copied(target.string());
    copied.append(text);
    copied.finish();
    std::printf("%s\n", target.c_str());
  }
}

int models(const std::vector<std::string>& arguments) {
  const fs::path folder = models_folder();
  const std::vector<Row> rows = table_of(folder);
  if (arguments.empty()) {
    if (!FLAGS_copy.empty())
      throw Error("--copy=", FLAGS_copy,
                  " copies one model; name it, as in crema models lenet --copy=", FLAGS_copy);
    list(rows);
    return 0;
  }
  if (arguments.size() > 1)
    throw Error("models takes one name; got '", arguments[0], "' and '", arguments[1], "'");
  const std::string& name = arguments[0];
  std::vector<std::string> names;
  for (size_t i = 1; i < rows.size(); ++i) names.push_back(rows[i].at(0));
  if (std::ranges::find(names, name) == names.end())
    throw Error("there is no model '", name, "' in '", folder.string(), "'",
                did_you_mean(name, names), "; `crema models` lists them");
  if (FLAGS_copy.empty()) {
    std::printf("%s", read(folder / name / kPage).c_str());
  } else {
    copy(folder / name, name, FLAGS_copy);
  }
  return 0;
}

}  // namespace

const Command kModels = {
    "models",
    "lists the models that come with Crema, or copies one",
    "  crema models\n"
    "  crema models NAME\n"
    "  crema models NAME --copy FOLDER [--overwrite]\n"
    "\n"
    "A line for each model; or the page of a model; or its files, copied to\n"
    "FOLDER, where solvers and nets name each other by the new paths. Run in the\n"
    "root of the repository, or set CREMA_MODEL_PATH to a folder of models. All\n"
    "commands look there for a prototxt models/... that is not in the working\n"
    "folder.",
    {"copy", "overwrite"},
    models};

}  // namespace crema::tools
