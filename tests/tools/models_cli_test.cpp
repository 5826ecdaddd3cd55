// crema models, and models/ found through CREMA_MODEL_PATH, as a user runs them.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <regex>
#include <sstream>
#include <string_view>

#include "support/database.hpp"
#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;
using namespace crema;
using namespace crema::test;

class ModelsCliTest : public CliTest {
 protected:
  /// In a folder without models, by a program that has none beside it.
  Output run_elsewhere(const std::string& arguments, const std::string& models) const {
    return run(arguments,
               "cd " + path("") + " && CREMA_MODEL_PATH=" + models + " " + lone_program());
  }
  std::string lone_program() const {
    const std::string program = path("lone/bin/crema");
    if (fs::exists(program)) return program;
    fs::create_directories(path("lone/bin"));
    std::error_code other_disk;
    fs::create_hard_link(CREMA_TOOL, program, other_disk);
    if (other_disk) fs::copy_file(CREMA_TOOL, program);
    return program;
  }
  std::string models_ = source_path("models").string();
};

TEST_F(ModelsCliTest, ListsTheTableOfThePage) {
  const Output output = run_elsewhere("models", models_);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("parameters")) << output.text;
  for (const auto& entry : fs::directory_iterator(models_)) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(output.says("\n" + entry.path().filename().string() + " ")) << entry << output.text;
  }
  EXPECT_FALSE(output.says("|")) << output.text;
}

TEST_F(ModelsCliTest, PrintsAPage) {
  const Output output = run_elsewhere("models lenet", models_);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.text.starts_with("# LeNet")) << output.text;
}

TEST_F(ModelsCliTest, ACopyNamesItsOwnFiles) {
  const Output output = run_elsewhere("models ssd_shapes --copy my/net/", models_);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("my/net/solver.prototxt")) << output.text;
  for (const char* file : {"README.md", "deploy.prototxt", "train_val.prototxt"})
    EXPECT_TRUE(fs::exists(path("my/net") + "/" + file)) << file;
  const Output solver = run("", "cat " + path("my/net/solver.prototxt"));
  EXPECT_TRUE(solver.says("\"my/net/train_val.prototxt\"")) << solver.text;
  EXPECT_FALSE(solver.says("models/ssd_shapes")) << solver.text;
  const Output page = run("", "cat " + path("my/net/README.md"));
  EXPECT_TRUE(page.says("my/net/solver.prototxt")) << page.text;
  EXPECT_FALSE(page.says("models/ssd_shapes")) << page.text;
  EXPECT_EQ(run_elsewhere("summary --model=my/net/deploy.prototxt", "").status, 0);

  const Output again = run_elsewhere("models ssd_shapes --copy my/net", models_);
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(again.says("my/net/README.md' exists") && again.says("--overwrite")) << again.text;
  EXPECT_EQ(run_elsewhere("models ssd_shapes --copy my/net --overwrite", models_).status, 0);
}

/// Of no model does a copy name what only the repository has.
TEST_F(ModelsCliTest, CopiesFitWhereTheyAre) {
  const std::regex repository(
      R"((^|[^\w/~-])(scripts|tests)/\w|recipe\.sh|\brepository\b|build/release|\]\(\.\./)");
  // Nearly all lines have none of these words: looking for them is quicker than the expressions
  // are.
  const auto has_any = [](const std::string& line, std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(
        words, [&](std::string_view word) { return line.find(word) != std::string::npos; });
  };
  int models = 0;
  for (const auto& entry : fs::directory_iterator(models_)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory()) continue;
    const std::string to = "my nets/" + name;
    const std::regex original("(^|[^\\w/])models/" + name + "\\b");
    const Output output = run_elsewhere("models " + name + " --copy '" + to + "'", models_);
    ASSERT_EQ(output.status, 0) << output.text;
    ++models;
    for (const auto& file : fs::recursive_directory_iterator(path(to))) {
      const fs::path kind = file.path().extension();
      if (!file.is_regular_file() || kind == ".png" || kind == ".svg") continue;
      const std::string text = read_file(file.path());
      std::istringstream lines(text);
      bool fenced = false;
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) fenced = !fenced;
        if (has_any(line,
                    {"scripts/", "tests/", "recipe.sh", "repository", "build/release", "../"})) {
          EXPECT_FALSE(std::regex_search(line, repository)) << file.path() << ": " << line;
        }
        if (has_any(line, {"models/" + name})) {
          EXPECT_FALSE(std::regex_search(line, original)) << file.path() << ": " << line;
        }
        // In a command, its path with a blank is one word.
        const size_t at = line.find("my nets/");
        if (kind != ".md" || !fenced || at == std::string::npos) continue;
        EXPECT_EQ(line[at - 1], '"') << file.path() << ": " << line;
      }
    }
    for (const char* net : {"deploy.prototxt", "train_val.prototxt"}) {
      if (!fs::exists(path(to) + "/" + net)) continue;
      EXPECT_EQ(read_file(path(to) + "/" + net).empty(), false);
    }
  }
  EXPECT_GT(models, 40);
  const std::string solver = read_file(path("my nets/ssd_shapes/solver.prototxt"));
  EXPECT_THAT(solver, testing::HasSubstr("net: \"my nets/ssd_shapes/train_val.prototxt\""));
  EXPECT_THAT(solver, testing::HasSubstr("snapshot_prefix: \"my nets/ssd_shapes/ssd_shapes\""));
  const std::string page = read_file(path("my nets/ssd_shapes/README.md"));
  EXPECT_THAT(
      page, testing::HasSubstr("\ncrema train --solver \"my nets/ssd_shapes/solver.prototxt\"\n"));
  EXPECT_THAT(page, testing::HasSubstr("# A small detector\n"));
  EXPECT_THAT(page, testing::HasSubstr("\n| 3,000 | 0.959 | 0.984 | 0.948 |\n"));
  EXPECT_THAT(page, testing::HasSubstr("crema convert-annotations --label_type=yolo"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("make.py")));
  EXPECT_EQ(run_elsewhere("summary --model='my nets/ssd_shapes/deploy.prototxt'", "").status, 0);
}

TEST_F(ModelsCliTest, PagesOfCopiesLeaveOutWhatOnlyTheRepositoryCanRun) {
  fs::create_directories(path("models/a"));
  write("models/README.md", "| model |\n|---|\n| a |\n");
  write("models/a/README.md", R"(# A

It is `models/a`, no `models/ab`. [B](../b/README.md) is another (`tests/a_test.cpp` compares them).
`scripts/make_nets.py` writes it. `data/x/make.py` draws images.

`crema summary --model models/a/net.prototxt` shows models/a/net.prototxt, of which a solver says
`net: "models/a/net.prototxt"`.

All paths are relative to the root of the repository: run `crema` there. `scripts/reproduce a` runs this:

```
data/x/get.sh
crema train --solver models/a/solver.prototxt \
    --seed 1
scripts/reproduce a \
    --threads 1
```

```
scripts/bench a
```

| | |
|---|---|
| `net.prototxt` | the net; `scripts/x` made it |
| `b.h5` | for models/a |
)");
  write("models/a/net.prototxt",
        "# A net. Written by scripts/make_nets.py.\n# Paths are relative to the "
        "root of the repository.\n# Of models/a:\n#   crema time --model models/a/net.prototxt\n"
        "name: \"models/a\"\n");
  ASSERT_EQ(run_elsewhere("models a --copy 'b c'", "").status, 0);
  EXPECT_EQ(read_file(path("b c/README.md")), R"(# A

It is `b c`, no `models/ab`. B is another. A script that comes with Crema's source draws images.

`crema summary --model "b c/net.prototxt"` shows b c/net.prototxt, of which a solver says
`net: "b c/net.prototxt"`.

All paths are relative to the folder that crema is run in.

```
crema train --solver "b c/solver.prototxt" \
    --seed 1
```

| | |
|---|---|
| `net.prototxt` | |
| `b.h5` | for b c |

Data sets are read from `data/`, in the folder that `crema` runs in. The scripts that make them come with the source of Crema.
)");
  EXPECT_EQ(read_file(path("b c/net.prototxt")),
            "# A net.\n# Paths are relative to the folder that crema is run in.\n# Of b c:\n"
            "#   crema time --model \"b c/net.prototxt\"\nname: \"b c\"\n");
}

/// A program that was built, and is not installed, has the models of its source.
TEST_F(ModelsCliTest, TheBuiltProgramFindsItsModelsFromAnyFolder) {
  const std::string there = "cd " + path("") + " && CREMA_MODEL_PATH= " CREMA_TOOL;
  const Output list = run("models", there);
  EXPECT_EQ(list.status, 0) << list.text;
  EXPECT_TRUE(list.says("\nlenet ")) << list.text;
  EXPECT_EQ(run("models lenet --copy here", there).status, 0);
  EXPECT_EQ(run("summary --model here/deploy.prototxt", there).status, 0);
  EXPECT_EQ(run("summary --model models/lenet/deploy.prototxt", there).status, 0);
}

TEST_F(ModelsCliTest, RefusesWhatItCannotCopy) {
  const auto refusal = [&](const std::string& arguments, std::initializer_list<std::string> parts) {
    const Output output = run_elsewhere(arguments, models_);
    EXPECT_EQ(output.status, 1) << output.text;
    for (const std::string& part : parts) EXPECT_TRUE(output.says(part)) << part << output.text;
  };
  refusal("models resnet5", {"no model 'resnet5'", "resnet50", "`crema models`"});
  refusal("models lenet alexnet", {"one name", "'alexnet'"});
  refusal("models --copy=x", {"--copy=x", "name it"});
  refusal("models lenet --copy \"a\\\"b\"", {"cannot stand in a prototxt"});
  write("file", "");
  refusal("models lenet --copy file/x", {"cannot make", "file/x"});
  refusal("models ../models", {"no model '../models'"});
  refusal("models lenet --copy=", {"--copy= is empty"});
  refusal("models lenet --overwrite", {"--copy=FOLDER"});
  refusal("models lenet --copy " + std::string(300, 'x'), {"cannot make", "xxx"});
  fs::create_directories(path("taken/deploy.prototxt"));
  refusal("models lenet --overwrite --copy taken", {"deploy.prototxt' is a folder"});
  EXPECT_FALSE(fs::exists(path("taken/README.md"))) << "half a copy";
}

TEST_F(ModelsCliTest, SaysWhereItLooked) {
  const Output output = run_elsewhere("models", path("none") + ":" + path("nor_here"));
  EXPECT_EQ(output.status, 1) << output.text;
  for (const std::string& part : {path("none"), path("nor_here"), std::string("CREMA_MODEL_PATH")})
    EXPECT_TRUE(output.says(part)) << part << output.text;
}

TEST_F(ModelsCliTest, SaysWhyAFileOfAModelIsNotFound) {
  const auto said = [&](const std::string& arguments, const std::string& model_path) {
    const Output output = run_elsewhere(arguments, model_path);
    EXPECT_EQ(output.status, 1) << output.text;
    return output.text;
  };
  const std::string summary = "summary --model models/lenet/deploy.prototxt";
  EXPECT_THAT(said("train --solver models/vgg16/solver.prototxt", models_),
              testing::HasSubstr(models_ + "/vgg16' has 'deploy.prototxt', 'train_val.prototxt'; "
                                           "write a solver like models/lenet/solver.prototxt"));
  EXPECT_THAT(said(summary, source_path("").string()),
              testing::HasSubstr("but should have '" + models_ + "'"));
  EXPECT_THAT(said(summary, path("none")),
              testing::HasSubstr("it is not in '" + path("none") + "', which is no folder"));
}

TEST_F(ModelsCliTest, TakesOnlyAPageWithATableOfModels) {
  fs::create_directories(path("models"));
  write("models/README.md", "| mine |\n|---|\n| x |\n");
  EXPECT_TRUE(run_elsewhere("models", models_).says("resnet50"));
  const Output none = run_elsewhere("models", source_path("").string());
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(none.says("no README.md with a table of models")) << none.text;
  write("models/README.md", "| model | task |\n| --- | --- |\n|\n| `gone` | x |\n");
  EXPECT_TRUE(run_elsewhere("models", "").says("gone"));
  EXPECT_TRUE(run_elsewhere("models gone", "").says("'models/gone' is no folder"));
  EXPECT_TRUE(run_elsewhere("models gone --copy x", "").says("'models/gone' is no folder"));
}

TEST_F(ModelsCliTest, CopiesNoResultsOfTraining) {
  fs::create_directories(path("models/a"));
  write("models/README.md", "| model |\n|---|\n| a |\n");
  write("models/a/README.md", "run --solver models/a/solver.prototxt, not models/ab/x\n");
  write("models/a/a_iter_1.caffemodel", "weights");
  EXPECT_EQ(run_elsewhere("models a --copy b", "").status, 0);
  EXPECT_FALSE(fs::exists(path("b/a_iter_1.caffemodel")));
  EXPECT_EQ(run("", "cat " + path("b/README.md")).text,
            "run --solver b/solver.prototxt, not models/ab/x\n");
}

TEST_F(ModelsCliTest, AllFoldersOfThePathAreListed) {
  fs::create_directories(path("first/a"));
  fs::create_directories(path("second/a"));
  fs::create_directories(path("second/b"));
  write("first/README.md", "| model | task |\n|---|---|\n| a | one |\n");
  write("second/README.md", "| model | task |\n|---|---|\n| a | two |\n| b | three |\n");
  write("first/a/README.md", "of the first\n");
  write("second/a/README.md", "of the second\n");
  write("second/b/README.md", "b\n");
  const std::string both = path("first") + ":" + path("second");
  const Output list = run_elsewhere("models", both);
  EXPECT_EQ(list.text, "model  task\na      one\nb      three\n");
  EXPECT_EQ(run_elsewhere("models a", both).text, "of the first\n");
  EXPECT_EQ(run_elsewhere("models models/b/", both).text, "b\n");
  EXPECT_TRUE(run_elsewhere("models c", both).says("there is no model 'c' in"));
  write("second/README.md", "| model | task |\n|---|---|\n| resnet1 | |\n| resnet2 | |\n");
  EXPECT_TRUE(run_elsewhere("models resnet", both).says("did you mean 'resnet1', 'resnet2'?"));
}

TEST_F(ModelsCliTest, TablesOfOtherColumnsAndFoldersWithoutATable) {
  fs::create_directories(path("first/mine"));
  write("first/mine/net.prototxt", "");
  write("first/mine/README.md", "my page\n");
  fs::create_directories(path("first/empty"));
  fs::create_directories(path("second/a"));
  fs::create_directories(path("third/b"));
  write("second/README.md", "| model | task | data |\n|---|---|---|\n| a | one | x |\n");
  write("third/README.md", "| model | reached | task |\n|---|---|---|\n| b | 9 | two |\n");
  const std::string all = path("first") + ":" + path("second") + ":" + path("third");
  const Output list = run_elsewhere("models", all);
  EXPECT_EQ(list.text,
            "model  task  data  reached\n"
            "mine\n"
            "a      one   x\n"
            "b      two         9\n");
  EXPECT_EQ(run_elsewhere("models mine", all).text, "my page\n");
}

// A program that starts itself anew does not list its installed folder twice.
TEST_F(ModelsCliTest, TheInstalledFolderIsListedOnce) {
  fs::create_directories(path("installed/bin"));
  const fs::path beside = fs::path(path("installed/bin")) / CREMA_MODELS_FROM_PROGRAM;
  fs::create_directories(beside / "a");
  std::ofstream(beside / "README.md") << "| model |\n|---|\n| a |\n";
  fs::copy_file(CREMA_TOOL, path("installed/bin/crema"));
  for (const char* command : {"summary", "time"}) {
    const Output output =
        run(text(command, " --model=models/nonesuch/deploy.prototxt"),
            "cd " + path("") + " && CREMA_MODEL_PATH= " + path("installed/bin/crema"));
    EXPECT_TRUE(output.says("; it is not in '" + beside.lexically_normal().string() + "'\n"))
        << output.text;
  }
}

TEST_F(ModelsCliTest, ModelsAreFoundInTheFoldersOfThePath) {
  const std::string summary = "summary --model=models/lenet/deploy.prototxt";
  EXPECT_EQ(run_elsewhere(summary, path("none") + ":" + models_).status, 0);
  EXPECT_EQ(run_elsewhere("summary --model=./models/lenet/deploy.prototxt", models_).status, 0);
  const Output without = run_elsewhere(summary, "");
  EXPECT_EQ(without.status, 1);
  EXPECT_TRUE(without.says("CREMA_MODEL_PATH") && without.says("is not set")) << without.text;
  EXPECT_EQ(run_elsewhere("summary --model=models//lenet/deploy.prototxt", models_).status, 0);
  const Output lost = run_elsewhere("summary --model=models/nope/deploy.prototxt", models_);
  EXPECT_TRUE(lost.says("it is not in '" + models_ + "'")) << lost.text;
  EXPECT_FALSE(lost.says("did you mean")) << lost.text;
  const Output file = run_elsewhere("summary --model=models/lenet/deply.prototxt", models_);
  EXPECT_TRUE(file.says("did you mean 'models/lenet/deploy.prototxt'?")) << file.text;
  const Output here = run("summary --model=models/lenet/deply.prototxt",
                          "cd " + source_path("").string() + " && CREMA_MODEL_PATH= " CREMA_TOOL);
  const size_t hint = here.text.find("did you mean");
  EXPECT_NE(hint, std::string::npos) << here.text;
  EXPECT_EQ(here.text.find("did you mean", hint + 1), std::string::npos) << here.text;
  const Output model = run_elsewhere("summary --model=models/lenett/deploy.prototxt", models_);
  EXPECT_TRUE(model.says("did you mean 'models/lenet/deploy.prototxt'?")) << model.text;
  fs::create_directories(path("models/folder"));
  const Output folder = run_elsewhere("summary --model=models/folder", models_);
  EXPECT_TRUE(folder.says("it is a folder")) << folder.text;
  EXPECT_FALSE(folder.says("CREMA_MODEL_PATH")) << folder.text;
  EXPECT_FALSE(run_elsewhere("test --model=x --weights=models/x.caffemodel", models_)
                   .says("CREMA_MODEL_PATH"));
  EXPECT_EQ(run_elsewhere("summary --model=models/../models/../README.md", models_).status, 1);
  EXPECT_EQ(run_elsewhere("summary --model=lenet/deploy.prototxt", models_).status, 1);
  // What is in the working folder comes first; a solver's net is looked for likewise.
  fs::create_directories(path("models/lenet"));
  write("models/lenet/deploy.prototxt", "layer { name: 'mine' type: 'Nonesuch' }");
  EXPECT_TRUE(run_elsewhere(summary, models_).says("Nonesuch"));
  const std::string solver = write("solver.prototxt", R"(net: "models/vit_tiny/train_val.prototxt"
    base_lr: 0 lr_policy: "fixed" max_iter: 0 snapshot_after_train: false)");
  const Output trained = run_elsewhere("train --solver=" + solver, models_);
  EXPECT_EQ(trained.status, 0) << trained.text;
}

TEST_F(ModelsCliTest, AnInstalledModelTrainsInTheWorkingFolder) {
  fs::create_directories(path("share/a"));
  write("share/a/net.prototxt", R"(name: "a"
    layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }
    layer { name: "y" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 1 } }
    layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "y" top: "loss" })");
  write("share/a/solver.prototxt", R"(net: "models/a/net.prototxt" base_lr: 0.1 lr_policy: "fixed"
    max_iter: 1 snapshot_prefix: "models/a/a")");
  const Output none = run_elsewhere("train --solver=" + path("share/a/solver.prototxt"), "");
  EXPECT_EQ(none.status, 1);
  EXPECT_FALSE(fs::exists(path("models")));
  const Output trained = run_elsewhere("train --solver=models/a/solver.prototxt", path("share"));
  EXPECT_EQ(trained.status, 0) << trained.text;
  EXPECT_TRUE(fs::exists(path("models/a/a_iter_1.caffemodel"))) << trained.text;
  EXPECT_FALSE(fs::exists(path("share/a/a_iter_1.caffemodel")));
  // Nor is a folder made for a training that cannot begin.
  fs::create_directories(path("share/c"));
  write("share/c/net.prototxt", "layer { name: 'x' type: 'Nonesuch' }");
  write("share/c/solver.prototxt", R"(net: "models/c/net.prototxt" base_lr: 0.1 lr_policy: "fixed"
    max_iter: 1 snapshot_prefix: "models/c/c")");
  EXPECT_EQ(run_elsewhere("train --solver=models/c/solver.prototxt", path("share")).status, 1);
  EXPECT_FALSE(fs::exists(path("models/c")));
  // A folder that no model has is not made.
  write("other.prototxt", R"(net: "models/a/net.prototxt" base_lr: 0.1 lr_policy: "fixed"
    max_iter: 1 snapshot_prefix: "models/b/b")");
  const Output other = run_elsewhere("train --solver=other.prototxt", path("share"));
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(other.says("there is no folder 'models/b'") && other.says("--copy")) << other.text;
}

TEST_F(ModelsCliTest, MissingDataAreAnErrorWithTheCommandThatBringsThem) {
  fs::create_directories(path("models/a"));
  fs::create_directories(path("data/set"));
  const auto reads = [&](const std::string& file) {
    write("models/a/net.prototxt", R"(layer { name: "d" type: "Data" top: "d"
      data_param { source: ")" + file + R"(" backend: LMDB batch_size: 1 } })");
  };
  const auto error = [&] {
    return run_elsewhere("test --iterations=1 --model=models/a/net.prototxt", "").text;
  };
  const auto says = [&](const std::string& text) {
    EXPECT_NE(error().find("; " + text + "\n"), std::string::npos) << error();
  };
  reads("data/set/full/train_lmdb");
  EXPECT_EQ(error().find("brings"), std::string::npos) << error();
  write("data/set/make.py", "");
  says("data/set/make.py brings the data set");
  write("data/set/get.sh", "");
  write("models/a/README.md", "");
  const std::string page = " (models/a/README.md has all commands)";
  says("data/set/get.sh, then data/set/make.py brings the data set" + page);
  // The scripts have run.
  fs::create_directories(path("data/set/full"));
  write("data/set/full/names.txt", "");
  says("models/a/README.md has the commands that make it");
  const std::string commands = "models/a/README.md has the commands that make it";
  write("data/set/full/data_batch_1.bin.gz", "");
  says(commands);  // convert-cifar makes databases of other names
  reads("data/set/full/cifar10_train_lmdb");
  says("crema convert-cifar data/set/full makes it" + page);
  reads("data/set/full/mean.binaryproto");
  says(commands);
  fs::create_directories(path("data/digits/mini"));
  write("data/digits/mini/train-images-idx3-ubyte", "");
  reads("data/digits/mini/test_lmdb");
  says("crema convert-mnist data/digits/mini makes it" + page);
  reads("data/digits/mini/val_lmdb");
  says(commands);
  reads("data/digits/mini/train_leveldb");
  says("crema convert-mnist --backend leveldb data/digits/mini makes it" + page);
  // The scripts write to the folder full only.
  fs::create_directories(path("data/drawn"));
  write("data/drawn/make.py", "");
  reads("data/drawn/ful/train_lmdb");
  says(commands);
  const Output net = run_elsewhere("summary --model=data/drawn/full/net.prototxt", "");
  EXPECT_EQ(net.text.find("brings"), std::string::npos) << net.text;
  // A name of any length is no more than a name.
  const Output endless =
      run_elsewhere("summary --model=data/" + std::string(100000, 'a') + "/b", "");
  EXPECT_EQ(endless.status, 1) << endless.text.substr(0, 100);
  // No folder data lies beside the models.
  reads("data/other/full/db");
  says("run crema in the root of Crema's repository, whose data/other brings the data set" + page);
  fs::create_directories(path("installed/data/other"));
  const Output installed =
      run_elsewhere("test --iterations=1 --model=models/a/net.prototxt", path("installed/models"));
  EXPECT_TRUE(installed.says("; cp -r " + path("installed/data") + " . brings data/other" + page))
      << installed.text;
  // What is there, and is wrong in another way, gets no such advice.
  fs::create_directories(path("data/set/full/db"));
  reads("data/set/full/db");
  EXPECT_NE(error().find("data/set/full/db"), std::string::npos) << error();
  EXPECT_EQ(error().find("models/a/README.md"), std::string::npos) << error();
}

TEST_F(ModelsCliTest, ScriptsStayExecutableInACopy) {
  fs::create_directories(path("models/a"));
  write("models/README.md", "| model |\n|---|\n| a |\n");
  const std::string script = write("models/a/run.py", "");
  write("models/a/recipe.sh", "");
  write("models/a/README.md", "| `deploy.prototxt` | |\n| `recipe.sh` | all commands |\n");
  fs::permissions(script, fs::perms::owner_exec, fs::perm_options::add);
  EXPECT_EQ(run_elsewhere("models a --copy b", "").status, 0);
  EXPECT_NE(fs::status(path("b/run.py")).permissions() & fs::perms::owner_exec, fs::perms::none);
  EXPECT_FALSE(fs::exists(path("b/recipe.sh")));  // it is for the repository
  EXPECT_EQ(run("", "cat " + path("b/README.md")).text, "| `deploy.prototxt` | |\n");
}

}  // namespace
