#include "model/binary_format.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "model/checksum.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace {
bool folders_cannot_be_synced = false;
}

/// Takes the place of the system's, for file systems that refuse.
extern "C" int fsync(int descriptor) {
  struct stat status {};
  if (folders_cannot_be_synced && ::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace crema {
namespace {

NetParameter some_weights() {
  NetParameter net;
  net.set_name("net");
  LayerParameter* layer = net.add_layer();
  layer->set_name("conv1");
  layer->set_type("Convolution");
  BlobProto* blob = layer->add_blobs();
  blob->mutable_shape()->add_dim(1000);
  for (int i = 0; i < 1000; ++i) blob->add_data(static_cast<float>(i));
  return net;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a file with the message holds: field 10001 with the size, the message, field 10001 with the
/// checksum of all before it.
std::string file_with(const NetParameter& net) {
  const std::string message = net.SerializeAsString(), tag = "\x89\xF1\x04";
  const auto number = [](uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
    return bytes;
  };
  const std::string before = tag + number(message.size() + 2 * 11) + message;
  Checksum checksum;
  checksum.add(before.data(), before.size());
  return before + tag + number(checksum.value());
}

int files_in(const TempFolder& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path(""))) {
    ++count;
  }
  return count;
}

TEST(BinaryFormatTest, ReadsWhatItWrote) {
  const TempFolder folder;
  const std::string path = folder.path("net.caffemodel");
  const NetParameter written = some_weights();
  write_binary_proto_atomically(path, written);
  EXPECT_EQ(content_of(path), file_with(written));

  NetParameter read;
  read.set_name("of before");
  read_binary_proto(path, read);
  EXPECT_EQ(read.SerializeAsString(), written.SerializeAsString());
}

TEST(BinaryFormatTest, ReplacesAFileAndLeavesNothingBeside) {
  const TempFolder folder;
  const std::string path = folder.write("net.caffemodel", "old content, longer than nothing");
  write_binary_proto_atomically(path, some_weights());
  EXPECT_EQ(content_of(path), file_with(some_weights()));
  EXPECT_EQ(files_in(folder), 1);
}

TEST(BinaryFormatTest, KeepsFieldsThatItDoesNotKnow) {
  const TempFolder folder;
  SolverState state;
  state.set_iter(5);
  state.GetReflection()->MutableUnknownFields(&state)->AddVarint(20000, 42);
  write_binary_proto_atomically(folder.path("a.solverstate"), state);

  SolverState read;
  read_binary_proto(folder.path("a.solverstate"), read);
  EXPECT_EQ(read.iter(), 5);
  EXPECT_EQ(read.SerializeAsString(), state.SerializeAsString());
}

TEST(BinaryFormatTest, SaysWhyItCannotWrite) {
  const TempFolder folder;
  expect_error(
      [&] { write_binary_proto_atomically(folder.path("no/x.caffemodel"), some_weights()); },
      {"cannot write '" + folder.path("no/x.caffemodel"), "No such file or directory",
       "create the folder '" + folder.path("no") + "' first"});

  // Something is in the way that a file cannot replace.
  std::filesystem::create_directories(folder.path("taken.caffemodel/inside"));
  expect_error(
      [&] { write_binary_proto_atomically(folder.path("taken.caffemodel"), some_weights()); },
      {"cannot write '" + folder.path("taken.caffemodel"), "irectory"});
  EXPECT_EQ(files_in(folder), 1);
}

TEST(BinaryFormatTest, AFullDiskLeavesTheOldFileAndNothingBeside) {
  const TempFolder folder;
  const std::string path = folder.write("net.caffemodel", "old");
  // A limit on the size of files stands for the full disk.
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1024, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string said;
  try {
    write_binary_proto_atomically(path, some_weights());
  } catch (const Error& error) {
    said = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(said, "cannot write '" + path + "': File too large; '" +
                      folder.path("x").substr(0, folder.path("x").size() - 2) +
                      "' takes no file of that size: raise the limit (ulimit -f), or write to "
                      "another disk");
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder), 1);
}

// A network file system that cannot sync folders made errors of snapshots that were written.
TEST(BinaryFormatTest, AFolderThatCannotBeSyncedIsNoError) {
  const TempFolder folder;
  const std::string path = folder.write("net.caffemodel", "old");
  folders_cannot_be_synced = true;
  write_binary_proto_atomically(path, some_weights());
  folders_cannot_be_synced = false;
  EXPECT_EQ(content_of(path), file_with(some_weights()));
  EXPECT_EQ(files_in(folder), 1);
}

// --- Files that are not what they should be ----------------------------------------

template <class Message>
std::string complaint(const std::string& path) {
  Message message;
  try {
    read_binary_proto(path, message);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReadBinaryProtoTest, NamesWhatIsMissingOrAFolder) {
  const TempFolder folder;
  folder.write("lenet_iter_5000.caffemodel", "");
  const std::string missing = complaint<NetParameter>(folder.path("lenet_iter_500.caffemodel"));
  EXPECT_NE(missing.find("cannot open weights file"), std::string::npos) << missing;
  EXPECT_NE(missing.find("No such file or directory; did you mean"), std::string::npos) << missing;
  EXPECT_NE(complaint<NetParameter>(folder.path("")).find("it is a folder"), std::string::npos);
}

TEST(ReadBinaryProtoTest, NamesFilesOfOtherKinds) {
  const TempFolder folder;
  const auto said = [&](const std::string& content) {
    return complaint<NetParameter>(folder.write("file", content));
  };
  EXPECT_NE(said("").find("is not a weights file but an empty file"), std::string::npos);
  EXPECT_NE(said("layer {\n  name: 'conv1'\n}\n")
                .find("is not a weights file but a text file; if it is a prototxt, give it where "
                      "the net is asked for"),
            std::string::npos);
  EXPECT_NE(said("\x89HDF\r\n\x1A\n" + std::string(100, '\0')).find("but an HDF5 file"),
            std::string::npos);
  EXPECT_NE(said("\x1F\x8B" + std::string(100, '\0')).find("a compressed file; unpack it first"),
            std::string::npos);
  EXPECT_NE(said("PK\x03\x04" + std::string(26, '\0') + "net.caffemodel").find("a compressed file"),
            std::string::npos);
}

TEST(ReadBinaryProtoTest, NamesWeightsOfOtherFrameworks) {
  const TempFolder folder;
  const std::string zip = "PK\x03\x04" + std::string(26, '\0'), zeros(100, '\0');
  const std::pair<std::string, const char*> cases[] = {
      {zip + "archive/data.pkl" + zeros, "but a file of PyTorch;"},
      {zip + "script/constants.pkl" + zeros, "but a file of PyTorch;"},
      {"\x80\x02\x8A\x0Al\xFC\x9C\x46\xF9 j\xA8P\x19" + zeros, "but a file of PyTorch;"},
      {zip + "metadata.json{\"keras_version\": \"3.4.1\"}" + zeros, "but a model of Keras;"},
      {std::string("\x20\0\0\0\0\0\0\0", 8) + R"({"w":{"dtype":"F32","shape":[2]}})" + zeros,
       "but a safetensors file;"},
  };
  for (const auto& [content, kind] : cases) {
    const std::string file = folder.write("file", content);
    const std::string said = complaint<NetParameter>(file);
    EXPECT_NE(said.find(kind), std::string::npos) << said;
    EXPECT_NE(said.find("scripts/from_torchvision.py"), std::string::npos) << said;
    EXPECT_NE(complaint<SolverState>(file).find("name a .solverstate"), std::string::npos);
  }
}

TEST(ReadBinaryProtoTest, TellsWeightsFromStates) {
  const TempFolder folder;
  SolverState state;
  state.set_iter(5);
  state.set_learned_net("a.caffemodel");
  state.add_history()->add_data(1);
  write_binary_proto_atomically(folder.path("a.solverstate"), state);
  write_binary_proto_atomically(folder.path("a.caffemodel"), some_weights());
  EXPECT_EQ(complaint<NetParameter>(folder.path("a.solverstate")),
            "'" + folder.path("a.solverstate") + "' is not a weights file but a solver's state");
  EXPECT_EQ(complaint<SolverState>(folder.path("a.caffemodel")),
            "'" + folder.path("a.caffemodel") + "' is not a solver's state but a weights file");
}

TEST(ReadBinaryProtoTest, SaysWhereAFileIsCutOff) {
  const TempFolder folder;
  const std::string whole = some_weights().SerializeAsString();
  const std::string said =
      complaint<NetParameter>(folder.write("a.caffemodel", whole.substr(0, whole.size() - 100)));
  EXPECT_NE(said.find("it is cut off: at byte 5 a field of "), std::string::npos) << said;
  EXPECT_NE(said.find("copy or download it again"), std::string::npos) << said;
}

TEST(ReadBinaryProtoTest, NamesAMissingRequiredField) {
  NetParameter net;
  net.add_layer()->mutable_clip_param()->set_min(0);
  const TempFolder folder;
  const std::string said =
      complaint<NetParameter>(folder.write("a.caffemodel", net.SerializePartialAsString()));
  EXPECT_NE(said.find("it lacks layer[0].clip_param.max"), std::string::npos) << said;
}

// Lengths that no memory could hold, nested as deep as the format goes: an Error, at once.
TEST(ReadBinaryProtoTest, HostileLengthsAreErrors) {
  const TempFolder folder;
  const std::string name_of_2_gib("\x0A\xFF\xFF\xFF\xFF\x07\x01", 7);
  const std::string name_of_16_eib("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x01", 12);
  const std::string endless_tag(100, '\xFF');
  std::string groups;  // of groups in groups
  for (int i = 0; i < 100000; ++i) groups += "\xA3\x7D";
  for (const std::string& content : {name_of_2_gib, name_of_16_eib, endless_tag, groups}) {
    EXPECT_NE(complaint<NetParameter>(folder.write("a.caffemodel", content)), "");
  }
}

// Damaged files give a message or an Error: never a crash, whichever byte it is.
TEST(ReadBinaryProtoTest, DamageNeverCrashes) {
  NetParameter net = some_weights();
  net.mutable_layer(0)->mutable_blobs(0)->mutable_data()->Truncate(4);
  net.mutable_layer(0)->mutable_convolution_param()->add_kernel_size(3);
  const std::string whole = net.SerializeAsString();
  const TempFolder folder;
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = whole.substr(0, 1 + random() % whole.size());
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    refused += !complaint<NetParameter>(folder.write("a.caffemodel", damaged)).empty();
  }
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace crema
