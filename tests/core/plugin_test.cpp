// What is refused before any of its code runs. tests/tools/plugin_test.sh builds and loads
// plug-ins.
#include "crema/plugin.hpp"

#include <gtest/gtest.h>

#include "crema/plugin_abi.hpp"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

const std::string kElf = "\177ELF....";

std::string passport(const std::string& lines) { return "crema plug-in passport\n" + lines; }

TEST(Plugin, AMissingFileIsAnError) {
  expect_error([] { load_plugin("/nowhere/libmine.so"); },
               {"there is no plug-in '/nowhere/libmine.so'"});
}

TEST(Plugin, AFolderIsAnError) {
  const TempFolder folder;
  expect_error([&] { load_plugin(folder.path("")); }, {folder.path(""), "is no file"});
}

TEST(Plugin, OtherFilesAreNoPlugins) {
  const TempFolder folder;
  for (const std::string& content : {std::string(), kElf, passport(CREMA_PLUGIN_ABI "\nmine\n"),
                                     kElf + "crema plug-in passport"}) {
    const std::string path = folder.write("libmine.so", content);
    expect_error([&] { load_plugin(path); }, {path, "is not a plug-in of Crema"});
  }
}

TEST(Plugin, OneOfAnotherVersionIsRefused) {
  const TempFolder folder;
  const std::string path =
      folder.write("libmine.so", kElf + passport("0.0.9 (static, 0123456789ab)\nmine\n"));
  expect_error([&] { load_plugin(path); }, {"was built against Crema 0.0.9 (static, 0123456789ab)",
                                            "this is " CREMA_PLUGIN_ABI, "build it again"});
}

TEST(Plugin, WhatTheLoaderRefusesIsAnError) {
  const TempFolder folder;
  const std::string path = folder.write("libmine.so", kElf + passport(CREMA_PLUGIN_ABI "\nmine\n"));
  expect_error([&] { load_plugin(path); }, {"plug-in '" + path + "': it cannot be loaded"});
}

}  // namespace
}  // namespace crema
