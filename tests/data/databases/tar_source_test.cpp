#include "data/databases/tar_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "crema/random.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::tar;
using testing::ElementsAre;
using testing::HasSubstr;

/// A member with other bytes in its header.
std::string with_header(std::string member, const std::map<size_t, std::string>& changes) {
  for (const auto& [at, text] : changes) member.replace(at, text.size(), text);
  size_t sum = 0;
  for (size_t i = 0; i < 512; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(member[i]);
  }
  char text[8];
  std::snprintf(text, sizeof text, "%06zo", sum);
  return member.replace(148, 6, text, 6);
}

std::string link(char type, const std::string& path, const std::string& target) {
  return with_header(test::tar_member(path, ""), {{156, std::string(1, type)}, {157, target}});
}

/// A member of GNU's old kind that says `size` bytes and stores `bytes`, its first ones.
std::string sparse(const std::string& path, size_t size, const std::string& bytes) {
  const auto octal = [](size_t number) {
    char text[32];
    std::snprintf(text, sizeof text, "%011zo", number);
    return std::string(text);
  };
  return with_header(test::tar_member(path, bytes), {{156, "S"},
                                                     {257, std::string("ustar  \0", 8)},
                                                     {386, octal(0)},
                                                     {398, octal(bytes.size())},
                                                     {410, octal(size)},
                                                     {422, octal(0)},
                                                     {483, octal(size)}});
}

class Tar : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLibarchive)
      GTEST_SKIP() << "needs libarchive: configure with CREMA_LIBARCHIVE=ON";
  }
  std::shared_ptr<RecordSource> open(const std::string& name, const std::string& classes = "") {
    return open_tar(folder_ / name, classes,
                    [this](Severity, const std::string& text) { notes_.push_back(text); });
  }
  /// "key=bytes label..." of each record; keys without the folder.
  std::vector<std::string> records(RecordSource& source) {
    std::vector<std::string> all;
    const auto reader = source.reader(ReadOrder::random);
    for (int64_t i = 0; i < source.count(); ++i) {
      const Record record = reader->read(i);
      EXPECT_EQ(reader->key(i), record.key);
      Datum datum;
      EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
      EXPECT_TRUE(datum.encoded());
      std::string prototxt(record.key.substr(folder_.path().string().size() + 1));
      prototxt += "=" + datum.data();
      if (datum.has_label()) prototxt += text(" ", datum.label());
      for (const float label : datum.float_label()) prototxt += text(" ", label);
      all.push_back(prototxt);
    }
    return all;
  }
  std::vector<std::string> records(const std::string& name) { return records(*open(name)); }
  void fails(const std::string& name, std::initializer_list<std::string_view> words) {
    expect_error([&] { open(name); }, words);
  }
  test::ScratchFolder folder_;
  std::vector<std::string> notes_;
};

TEST_F(Tar, LabelsAreMembersOfTheImagesStem) {
  folder_.write("a.tar", tar({{"s/2.jpg", "two"},
                              {"s/2.cls", "7\n"},
                              {"s/1.cls", "-3"},
                              {"./s/1.JPEG", "one"},
                              {"s/1.txt", "99"},
                              {"s/1.json", "{}"},
                              {"s/1.mask.png", "no image"},
                              {"s/.hidden.jpg", ""}}));
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: s/2.jpg=two 7", "a.tar: s/1.JPEG=one -3"));
}

TEST_F(Tar, TextsWithNumbersAreLabelsToo) {
  folder_.write("a.tar",
                tar({{"1.png", "one"}, {"1.txt", " 0.5\t2 \n"}, {"2.png", ""}, {"2.txt", "1 1"}}));
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: 1.png=one 0.5 2", "a.tar: 2.png= 1 1"));
}

TEST_F(Tar, FoldersAreClassesWhereThereAreNoLabels) {
  const test::Records members = {{"set/dog/b.v2.jpg", "b"},
                                 {"set/cat/a.jpg", "a"},
                                 {"set/cat/a.txt", "a cat that sleeps"},
                                 {"set/notes.md", ""}};
  folder_.write("a.tar", tar(members));
  EXPECT_THAT(records("a.tar"),
              ElementsAre("a.tar: set/dog/b.v2.jpg=b 1", "a.tar: set/cat/a.jpg=a 0"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("2 classes, label 0 to 1")));
  const std::string names = folder_.write("names.txt", "bird\ndog\ncat\n");
  EXPECT_THAT(records(*open("a.tar", names)),
              ElementsAre("a.tar: set/dog/b.v2.jpg=b 1", "a.tar: set/cat/a.jpg=a 2"));
  EXPECT_THAT(notes_.back(), HasSubstr("no image of 1 classes"));
  expect_error([&] { open("a.tar", folder_.write("names.txt", "bird\ncats\ndog")); },
               {"class 'cat'", "lacks", "did you mean 'cats'"});
  expect_error([&] { open("a.tar", folder_.write("names.txt", "cat\ncat")); },
               {"names.txt:2", "'cat' comes twice"});
}

TEST_F(Tar, ShardsAreNamedByPatternsAndLists) {
  for (const char* shard : {"t-000.tar", "t-001.tar", "t-002.tar"}) {
    folder_.write(shard,
                  tar({{text("x", shard[4], ".jpg"), shard}, {text("x", shard[4], ".cls"), "1"}}));
  }
  for (const char* pattern :
       {"t-{000..002}.tar", "t-*.tar", "t-00[012].tar", "t-{000,001,002}.tar"}) {
    EXPECT_THAT(records(pattern),
                ElementsAre("t-000.tar: x0.jpg=t-000.tar 1", "t-001.tar: x1.jpg=t-001.tar 1",
                            "t-002.tar: x2.jpg=t-002.tar 1"))
        << pattern;
  }
  folder_.write("list.txt", (folder_ / "t-002.tar") + "\n" + (folder_ / "t-000.tar") + "\n");
  EXPECT_THAT(records("list.txt"),
              ElementsAre("t-002.tar: x2.jpg=t-002.tar 1", "t-000.tar: x0.jpg=t-000.tar 1"));
  fails("t-{000..003}.tar", {"t-003.tar'", "No such file"});
  // The largest number: one more is none.
  fails("t-{9223372036854775806..9223372036854775807}.tar",
        {"t-9223372036854775806.tar'", "No such file"});
  fails("u-*.tar", {"no file is named like", "u-*.tar"});
  fails("t-{3..1}.tar", {"3..1", "smaller number first"});
  expect_error([&] { open_tar(folder_.path().string(), "", {}); }, {"is a folder", "*.tar"});
  expect_error([] { open_tar("", "", {}); }, {"no path"});
}

TEST_F(Tar, LongNamesOfOtherFormatsAreRead) {
  const std::string name = std::string(150, 'd') + "/\xc3\xa4.jpg";
  // A pax header in front of the member: "LENGTH path=NAME\n".
  std::string pax = " path=" + name + "\n";
  size_t length = pax.size() + 3;
  pax = text(length, pax);
  ASSERT_EQ(pax.size(), length);
  const std::string header = with_header(test::tar_member("pax", pax), {{156, "x"}});
  folder_.write("a.tar", header + tar({{"short.jpg", "pixels"}}));
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: " + name + "=pixels 0"));
}

TEST_F(Tar, DamagedFilesAreErrorsThatNameThem) {
  const std::string whole =
      tar({{"1.jpg", std::string(2000, 'p')}, {"1.cls", "1"}, {"2.jpg", "q"}, {"2.cls", "2"}});
  folder_.write("whole.tar", whole);
  EXPECT_EQ(open("whole.tar")->count(), 2);
  for (const size_t size : {0, 100, 511, 512, 700, 2559, 2560, 2561, 3072, 3600, 5120}) {
    folder_.write("cut.tar", whole.substr(0, size));
    fails("cut.tar", {"cut.tar'"});
  }
  folder_.write("cut.tar", whole.substr(0, 700));
  fails("cut.tar", {"is damaged", "copy it again"});
  folder_.write("cut.tar", whole.substr(0, whole.size() - 1024));
  fails("cut.tar", {"its end mark is missing", "cut off"});
  for (uint64_t round = 0; round < 300; ++round) {
    Random random(3, 4, round);
    std::string flipped = whole;
    flipped[random.below(512)] ^= static_cast<char>(1u << random.below(8));
    folder_.write("flipped.tar", flipped);
    // Every bit of a header counts in its sum.
    try {
      EXPECT_EQ(records("flipped.tar").size(), 2u);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("flipped.tar"));
    }
  }
  folder_.write("a.tar.gz", "\x1f\x8b\x08 and so on");
  fails("a.tar.gz", {"is compressed", "gunzip"});
  folder_.write("text.tar", "words\n");
  fails("text.tar", {"words"});
}

TEST_F(Tar, SizesThatAreNoNumberWithTheirPlaceAreErrors) {
  // Sizes in binary, for more than 8 GiB.
  for (const int below : {0, 1, 511, 512, 600, 1024}) {
    std::string size("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12);
    for (int k = 0; k < below; ++k) {
      for (size_t i = 12; i-- > 4;) {
        if (size[i]-- != 0) break;
      }
    }
    folder_.write("huge.tar", with_header(test::tar_member("1.jpg", "pixels"), {{124, size}}) +
                                  tar({{"2.jpg", "pixels"}}));
    fails("huge.tar", {"huge.tar' is damaged"});
  }
}

TEST_F(Tar, WhatCannotBeASampleIsAnError) {
  folder_.write("a.tar", tar({{"1.jpg", ""}, {"1.cls", "1"}, {"2.jpg", ""}}));
  fails("a.tar", {"a.tar: 2.jpg' has no label", "'2.cls'"});
  folder_.write("a.tar", tar({{"1.jpg", ""}, {"1.cls", "dog"}}));
  fails("a.tar", {"label 'dog' of '1.cls'", "no number"});
  folder_.write("a.tar", tar({{"1.jpg", ""}, {"1.cls", "\n"}}));
  fails("a.tar", {"'1.cls' is empty", "numbers"});
  folder_.write("a.tar", tar({{"1.jpg", ""}, {"1.cls", "1 2"}, {"2.jpg", ""}, {"2.cls", "1"}}));
  fails("a.tar", {"a.tar: 2.jpg' has the labels 1", "a.tar: 1.jpg' has 1 2"});
  folder_.write("a.tar", tar({{"1.jpg", ""}}));
  fails("a.tar", {"1.jpg' has no label", "no folder of a class"});
  folder_.write("a.tar", tar({{"1.cls", "1"}, {"1.npy", ""}}));
  fails("a.tar", {"has no images", ".jpg"});
  folder_.write("a.tar", tar({{"1.jpg", ""}, {"1.cls", "1"}}));
  expect_error([&] { open("a.tar", folder_.write("names.txt", "cat")); }, {"class_names"});
}

TEST_F(Tar, HardLinksStandForTheirTargets) {
  folder_.write("a.tar", test::tar_member("./blob", "pixels") + link('1', "1.jpg", "./blob") +
                             link('1', "2.jpg", "1.jpg") + test::tar_member("1.cls", "4") +
                             link('1', "2.cls", "1.cls") + tar({{"3.jpg", "x"}, {"3.cls", "5"}}));
  EXPECT_THAT(records("a.tar"),
              ElementsAre("a.tar: 1.jpg=pixels 4", "a.tar: 2.jpg=pixels 4", "a.tar: 3.jpg=x 5"));
  folder_.write("a.tar", link('1', "1.jpg", "other/1.jpg") + tar({{"1.cls", "5"}}));
  fails("a.tar", {"a.tar: 1.jpg' is a hard link to 'other/1.jpg'", "not in the tar file"});
  folder_.write("a.tar", link('1', "notes.md", "gone") + tar({{"c/3.jpg", "x"}}));
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: c/3.jpg=x 0"));
}

TEST_F(Tar, OfAMemberThatComesTwiceTheLaterOneCounts) {
  folder_.write("a.tar", tar({{"1.jpg", "old"},
                              {"1.cls", "1"},
                              {"2.jpg", "two"},
                              {"2.txt", "2"},
                              {"./1.jpg", "newer"},
                              {"1.cls", "10"},
                              {"2.txt", "20"}}));
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: 1.jpg=newer 10", "a.tar: 2.jpg=two 20"));
}

TEST_F(Tar, WhatIsPassedOverIsToldOnce) {
  folder_.write("a.tar", link('2', "0.jpg", "1.jpg") + link('2', "00.jpg", "1.jpg") +
                             tar({{"1.jpg", "one"},
                                  {"1.cls", "1"},
                                  {"1.mask.png", ""},
                                  {"2.JXL", ""},
                                  {"3.heic", ""},
                                  {"._1.jpg", ""},
                                  {"4.cls", "4"},
                                  {"notes.md", ""}}));
  folder_.write("b.tar", tar({{"5.jpg", "five"}, {"5.cls", "5"}, {"6.cls", "6"}}));
  EXPECT_THAT(records("{a,b}.tar"), ElementsAre("a.tar: 1.jpg=one 1", "b.tar: 5.jpg=five 5"));
  std::vector<std::string> warnings;
  for (const std::string& note : notes_) {
    if (note.find("not used") != std::string::npos) warnings.push_back(note);
  }
  ASSERT_EQ(warnings.size(), 1u);
  const std::string a = folder_ / "a.tar: ";
  for (const std::string& part :
       {"symbolic links: 2, such as '" + a + "0.jpg'", "(two dots): 1, such as '" + a + "1.mask",
        "(.jxl): 1, such as '" + a + "2.JXL'", "(.heic): 1, such as '" + a + "3.heic'",
        "hidden images: 1, such as '" + a + "._1.jpg'",
        "labels without an image: 2, such as '" + a + "4.cls'"}) {
    EXPECT_THAT(warnings[0], HasSubstr(part));
  }
}

TEST_F(Tar, MembersWithHolesCountOnlyWhereTheyAreUsed) {
  const std::string rest = tar({{"1.jpg", "one"}, {"1.cls", "1"}});
  folder_.write("a.tar", sparse("disk.bin", 1 << 20, "start") + rest);
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: 1.jpg=one 1"));
  const std::string end(1024, '\0');
  folder_.write("a.tar", rest.substr(0, rest.size() - 1024) + sparse("x.bin", 1 << 20, "s") + end);
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: 1.jpg=one 1"));
  folder_.write("a.tar", sparse("2.jpg", 1 << 20, "start") + rest);
  fails("a.tar", {"'2.jpg'", "stored with holes", "--sparse"});
  folder_.write("a.tar", sparse("1.jpg", 1 << 20, "start") + rest);  // the later one counts
  EXPECT_THAT(records("a.tar"), ElementsAre("a.tar: 1.jpg=one 1"));
}

TEST_F(Tar, AFileThatChangesWhileItIsReadIsAnError) {
  folder_.write("a.tar", tar({{"1.jpg", "old"}, {"1.cls", "1"}}));
  const auto source = open("a.tar");
  folder_.write("a.tar", tar({{"1.jpg", "new one"}, {"1.cls", "1"}, {"2.jpg", ""}}));
  const auto reader = source->reader(ReadOrder::random);
  expect_error([&] { reader->read(0); }, {"a.tar' was changed"});
}

}  // namespace
}  // namespace crema
