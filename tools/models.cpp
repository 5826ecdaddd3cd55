// crema models: lists the models that come with Crema, prints the page of one, or copies its files.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>

#include "core/path_advice.hpp"
#include "model/model_folders.hpp"
#include "model/whole_file.hpp"
#include "tools/columns.hpp"
#include "tools/command.hpp"
#include "tools/copied_model.hpp"
#include "tools/flags.hpp"
#include "tools/markdown.hpp"
#include "tools/model_list.hpp"

DEFINE_string(copy, "", "copy the model's files to this folder");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPage = "README.md";

/// Error where it cannot be read.
std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  std::error_code none;
  if (!file || fs::is_directory(path, none) || (text << file.rdbuf()).bad() || file.bad())
    throw Error("cannot read '", path.string(), "'", file ? "" : ": ",
                file ? "" : std::strerror(errno));
  return text.str();
}

/// The folder that is installed beside this program.
fs::path installed_folder() {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  return (program.parent_path() / CREMA_MODELS_FROM_PROGRAM).lexically_normal();
}

/// The page's first table: its header, and a row for each model, whose first cell is the name of
/// its folder. Empty where the header does not begin with "model".
Table table_of(const fs::path& folder) {
  const std::vector<Table> tables = tables_of(read(folder / kPage));
  if (tables.empty()) return {};
  Table table = tables[0];
  for (TableRow& row : table) {
    for (std::string& cell : row) cell = without_marks(cell);
  }
  return table[0][0] == "model" ? table : Table{};
}

/// The cells of a row of one table in the order of the columns of another.
TableRow in_columns(const TableRow& row, const TableRow& columns, const TableRow& wanted) {
  TableRow cells;
  for (const std::string& column : wanted) {
    const auto i = static_cast<size_t>(std::ranges::find(columns, column) - columns.begin());
    cells.push_back(i < row.size() ? row[i] : "");
  }
  return cells;
}

/// The tables of all folders of models, as one that has the columns of each.
struct Models {
  Table rows;                               // as table_of()
  std::map<std::string, fs::path> folders;  // of each model
  std::string sought;                       // "'a', 'b'": the folders that were looked at
};

/// The models of a folder without such a table: its folders that hold a prototxt.
Table rows_of(const fs::path& folder) {
  Table rows;
  std::error_code none;
  for (fs::directory_iterator model(folder, none), end; !none && model != end;
       model.increment(none)) {
    for (fs::directory_iterator file(model->path(), none); !none && file != end;
         file.increment(none)) {
      if (file->path().extension() != ".prototxt") continue;
      rows.push_back({model->path().filename().string()});
      break;
    }
    none.clear();
  }
  std::ranges::sort(rows);
  if (!rows.empty()) rows.insert(rows.begin(), {"model"});
  return rows;
}

/// Of models with one name, that of the first folder counts, as for find_model_file().
Models find_models() {
  std::vector<fs::path> candidates = {"models"};
  for (const std::string& folder : model_path()) candidates.emplace_back(folder);
  Models models;
  for (const fs::path& folder : candidates) {
    models.sought += text(models.sought.empty() ? "'" : ", '", folder.string(), "'");
    std::error_code none;
    Table table;
    if (fs::is_regular_file(folder / kPage, none)) table = table_of(folder);
    if (table.empty() && folder != "models") table = rows_of(folder);
    if (table.empty()) continue;
    if (models.rows.empty()) models.rows.emplace_back();
    TableRow& columns = models.rows[0];
    for (const std::string& column : table[0]) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
    for (const TableRow& row : std::span(table).subspan(1)) {
      if (models.folders.emplace(row[0], folder / row[0]).second)
        models.rows.push_back(in_columns(row, table[0], models.rows[0]));
    }
  }
  if (models.folders.empty())
    throw Error("no ", kPage, " with a table of models, and no folder with a prototxt, in ",
                models.sought, "; run crema in the root of its repository, or set ", kModelPath,
                " to its folder models");
  return models;
}

/// A model may be named by its folder, too: models/lenet/.
std::string name_of_model(const std::string& argument) {
  fs::path path = fs::path(argument).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.parent_path() == "models" ? path.filename().string() : path.string();
}

/// "; did you mean 'resnet18', 'resnet50'?": the names that hold the text, or the most similar one;
/// ";" where there is none.
std::string similar_names(const std::string& content, const std::vector<std::string>& names) {
  std::string similar;
  for (const std::string& name : names) {
    if (!content.empty() && name.find(content) != std::string::npos)
      similar += text(similar.empty() ? "; did you mean '" : ", '", name, "'");
  }
  if (similar.empty()) similar = did_you_mean(content, names);
  return similar.empty() ? ";" : similar.ends_with('?') ? similar : similar + "?";
}

/// Error, with similar names, for one that there is not.
const fs::path& folder_of(const Models& models, const std::string& name) {
  const auto found = models.folders.find(name);
  if (found == models.folders.end()) {
    std::vector<std::string> names;
    for (const auto& [known, folder] : models.folders) names.push_back(known);
    throw Error("there is no model '", name, "' in ", models.sought, similar_names(name, names),
                " `crema models` lists them");
  }
  std::error_code none;
  if (!fs::is_directory(found->second, none))
    throw Error("'", found->second.string(), "' is no folder, though '",
                (found->second.parent_path() / kPage).string(), "' lists the model");
  return found->second;
}

/// What a model is made of; results of training lie beside it. Without the recipe, which is for
/// scripts/reproduce and the data of the repository.
bool is_part_of_model(const fs::path& file) {
  for (const char* extension :
       {".prototxt", ".md", ".png", ".svg", ".cpp", ".hpp", ".proto", ".py"}) {
    if (file.extension() == extension) return true;
  }
  return file.filename() == "CMakeLists.txt";
}

void copy(const fs::path& model, const std::string& name, std::string to) {
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  if (to.find_first_of("\"'\\\n") != std::string::npos)
    throw Error("--copy=", to, " cannot stand in a prototxt; give a name without quotes or \\");
  std::vector<fs::path> files;
  std::error_code why;
  for (fs::recursive_directory_iterator entry(model, why), end; !why && entry != end;
       entry.increment(why)) {
    if (entry->is_regular_file(why) && is_part_of_model(entry->path()))
      files.push_back(entry->path().lexically_relative(model));
  }
  if (why) throw Error("cannot list '", model.string(), "': ", why.message());
  std::ranges::sort(files);
  // What is there is looked at before anything is written.
  for (const fs::path& file : files) {
    const fs::path target = to / file;
    const fs::file_status there = fs::symlink_status(target, why);
    if (fs::is_directory(there)) throw Error("'", target.string(), "' is a folder; give another");
    if (fs::exists(there) && !FLAGS_overwrite)
      throw Error("'", target.string(), "' exists; give another folder, or --overwrite");
  }
  for (const fs::path& file : files) {
    const fs::path target = to / file;
    check_new_path(target.parent_path().string());
    fs::create_directories(target.parent_path(), why);
    if (why) throw Error("cannot make '", target.parent_path().string(), "': ", why.message());
    WholeFile copied(target.string());
    copied.append(text_of_copy(read(model / file), file, {name, to}));
    copied.finish();
    const fs::perms executable =
        fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    const fs::perms mode = fs::status(model / file, why).permissions() & executable;
    if (!why) fs::permissions(target, mode, fs::perm_options::add, why);
    if (why) throw Error("cannot set the mode of '", target.string(), "': ", why.message());
    std::printf("%s\n", target.c_str());
  }
}

int models(const std::vector<std::string>& arguments) {
  const bool copies = !FLAGS_copy.empty();
  if (FLAGS_overwrite && !copies)
    throw Error("--overwrite is for --copy=FOLDER, which is not given");
  const Models known = find_models();
  if (arguments.empty()) {
    if (copies)
      throw Error("--copy=", FLAGS_copy,
                  " copies one model; name it, as in crema models lenet --copy=", FLAGS_copy);
    std::ostringstream out;
    print_table(known.rows, out, terminal_width(), 0);
    print_whole(out.str());
    return 0;
  }
  if (arguments.size() > 1)
    throw Error("models takes one name; got '", arguments[0], "' and '", arguments[1], "'");
  const std::string name = name_of_model(arguments[0]);
  const fs::path& model = folder_of(known, name);
  if (copies) {
    copy(model, name, FLAGS_copy);
  } else {
    std::printf("%s", read(model / kPage).c_str());
  }
  return 0;
}

}  // namespace

fs::path folder_of_model(const std::string& name) {
  return folder_of(find_models(), name_of_model(name));
}

void use_installed_models() {
  std::error_code none;
  const fs::path folder = installed_folder();
  if (!fs::is_regular_file(folder / kPage, none)) return;
  std::string path;
  for (const std::string& named : model_path()) {
    if (named == folder.string()) return;  // the user names it, or this is a new start
    path += named + ":";
  }
  setenv(kModelPath, (path + folder.string()).c_str(), 1);
}

extern const Command kModels = {
    "models",
    "lists the models that come with Crema, or copies one",
    "  crema models\n"
    "  crema models NAME\n"
    "  crema models NAME --copy FOLDER [--overwrite]\n"
    "\n"
    "A line for each model; or the page of a model; or its files, copied to\n"
    "FOLDER, where solvers, nets and commands name each other by the new paths.\n"
    "FOLDER is made, or gets the files beside those that it has. What only the\n"
    "repository can run is left out: recipe.sh, and sentences on its scripts.\n"
    "\n"
    "Models are looked for in models/, then in the folders that CREMA_MODEL_PATH\n"
    "lists, separated by colons, and in the one that is installed with crema, or\n"
    "that it was built from. The table of a folder is in its README.md; without\n"
    "one, its folders that hold a prototxt are listed. All commands look there for\n"
    "a prototxt models/... that is not in the working folder.",
    {"copy", "overwrite"},
    models};

}  // namespace crema::tools
