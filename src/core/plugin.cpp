#include "crema/plugin.hpp"

#include <dlfcn.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/path_advice.hpp"
#include "crema/plugin_abi.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

/// Visible to plug-ins exactly when the rest of the library is.
extern "C" const char crema_exported[];
extern "C" const char crema_exported[] = CREMA_PLUGIN_ABI;

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;

/// What crema_add_plugin writes into a plug-in, as text that is read before any of its code runs:
/// protocol buffers end the program when two files declare the same. Lines: kPassport, abi, name,
/// FileDescriptorSet in hexadecimal digits.
struct Passport {
  std::string abi;
  std::string name;
  FileDescriptorSet messages;
};

constexpr std::string_view kPassport = "crema plug-in passport";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error("cannot open plug-in '", path, "': ", std::strerror(errno), path_advice(path))
        .about(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string from_hex(std::string_view digits) {
  std::string bytes(digits.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint8_t value = 0;
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
    bytes[i] = static_cast<char>(value);
  }
  return bytes;
}

std::optional<Passport> find_passport(const std::string& path) {
  const std::string content = read_file(path);
  const size_t begin = content.find(text(kPassport, '\n'));
  if (!content.starts_with("\177ELF") || begin == std::string::npos) return std::nullopt;
  std::istringstream text(content.c_str() + begin);
  std::string mark, messages;
  Passport passport;
  std::getline(text, mark);
  std::getline(text, passport.abi);
  std::getline(text, passport.name);
  std::getline(text, messages);
  // The digits are in the form of this Crema only where the plug-in was built against it.
  if (passport.abi != CREMA_PLUGIN_ABI) return passport;
  if (!passport.messages.ParseFromString(from_hex(messages))) return std::nullopt;
  return passport;
}

void require_free_name(const std::string& name) {
  const auto* pool = DescriptorPool::generated_pool();
  const google::protobuf::FileDescriptor* file = pool->FindFileContainingSymbol(name);
  if (file != nullptr)
    throw Error("it declares ", name, ", as ", file->name(),
                " does already; give its .proto file a package of its own");
}

void require_free_number(const FieldDescriptorProto& field, const std::string& package) {
  const auto* pool = DescriptorPool::generated_pool();
  // Names are fully qualified, with a dot in front.
  const std::string extended = field.extendee().substr(field.extendee().starts_with('.') ? 1 : 0);
  const Descriptor* message = pool->FindMessageTypeByName(extended);
  if (message == nullptr) return;
  const auto* taken = pool->FindExtensionByNumber(message, field.number());
  if (taken == nullptr) return;
  throw Error("its field [", package.empty() ? "" : package + ".", field.name(), "] has number ",
              field.number(), " of ", message->name(), ", which is [", taken->full_name(), "] of ",
              taken->file()->name(), "; give it another number");
}

/// Error when a message, field or file of it exists already.
void require_free(const FileDescriptorProto& file) {
  const auto* pool = DescriptorPool::generated_pool();
  if (pool->FindFileByName(file.name()) != nullptr)
    throw Error("its file of messages ", file.name(),
                " is there already; give the plug-in another name");
  const std::string before = file.package().empty() ? "" : file.package() + ".";
  for (const auto& message : file.message_type()) require_free_name(before + message.name());
  for (const auto& type : file.enum_type()) {
    require_free_name(before + type.name());
    for (const auto& value : type.value()) require_free_name(before + value.name());
  }
  for (const auto& field : file.extension()) {
    require_free_number(field, file.package());
    require_free_name(before + field.name());
  }
  for (const auto& message : file.message_type()) {
    for (const auto& field : message.extension()) {
      require_free_number(field, before + message.name());
    }
  }
}

void* open_library(const std::string& path) {
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = dlerror();
  const bool exported = dlsym(RTLD_DEFAULT, "crema_exported") != nullptr;
  throw Error("it cannot be loaded: ", why,
              exported ? ""
                       : "; this program does not export Crema's symbols: call "
                         "crema_plugin_host(TARGET) in its CMakeLists.txt, or link libcrema.so");
}

std::vector<std::string> register_types(void* library) {
  using Register = void (*)(Registry&);
  const auto entry = reinterpret_cast<Register>(dlsym(library, "crema_plugin_register"));
  if (entry == nullptr)
    throw Error("it has no function crema_plugin_register; build it with crema_add_plugin");
  Registry& registry = Registry::instance();
  const std::vector<std::string> before = registry.types();
  entry(registry);
  const std::vector<std::string> after = registry.types();
  std::vector<std::string> added;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(added));
  return added;
}

/// The path without links; Error unless a regular file is there.
std::string find_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::path file = fs::canonical(path, code);
  if (code)
    throw Error("there is no plug-in '", path, "': ", code.message(), path_advice(path))
        .about(path);
  if (!fs::is_regular_file(file, code))
    throw Error("plug-in '", path, "' is no file; name the shared library, such as libmine.so");
  return file;
}

}  // namespace

Plugin load_plugin(const std::string& path) {
  static std::mutex mutex;
  static std::vector<Plugin> loaded;
  const std::lock_guard lock(mutex);
  Plugin plugin{.path = find_file(path)};
  for (const Plugin& known : loaded) {
    if (known.path == plugin.path) return known;
  }
  const std::optional<Passport> passport = find_passport(plugin.path);
  if (!passport.has_value())
    throw Error(
        "'", path,
        "' is not a plug-in of Crema; build it with crema_add_plugin of an installed Crema");
  if (passport->abi != CREMA_PLUGIN_ABI)
    throw Error("plug-in '", path, "' was built against Crema ", passport->abi, ", and this is ",
                CREMA_PLUGIN_ABI, "; build it again against this one");
  plugin.name = passport->name;
  for (const Plugin& known : loaded) {
    if (known.name == plugin.name)
      throw Error("plug-in '", path, "': a plug-in of the name '", plugin.name,
                  "' is loaded already, from '", known.path, "'; load one of them");
  }
  try {
    Registry::instance();  // its rooms come first
    for (const FileDescriptorProto& file : passport->messages.file()) require_free(file);
    plugin.types = register_types(open_library(plugin.path));
  } catch (const Error& error) {
    throw Error("plug-in '", path, "': ", error.what());
  }
  return loaded.emplace_back(plugin);
}

}  // namespace crema
