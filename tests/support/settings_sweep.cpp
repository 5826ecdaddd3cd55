#include "support/settings_sweep.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

#include "crema/error.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// The message that a path of fields leads to: the last one where it is repeated, or a new one.
Message& message_at(const SettingsSweep::Path& path, Message& whole) {
  Message* message = &whole;
  for (const FieldDescriptor* field : path) {
    const Reflection& at = *message->GetReflection();
    if (!field->is_repeated()) {
      message = at.MutableMessage(message, field);
    } else if (at.FieldSize(*message, field) > 0) {
      message = at.MutableRepeatedMessage(message, field, at.FieldSize(*message, field) - 1);
    } else {
      message = at.AddMessage(message, field);
    }
  }
  return *message;
}

std::string path_text(const SettingsSweep::Path& path, const FieldDescriptor& field) {
  std::string prototxt;
  for (const FieldDescriptor* part : path) prototxt += text(part->name(), ".");
  return text(prototxt, field.name());
}

void set_number(Message& message, const FieldDescriptor& field, double value) {
  const Reflection& at = *message.GetReflection();
  const bool adds = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto number = static_cast<int32_t>(value);
      return adds ? at.AddInt32(&message, &field, number) : at.SetInt32(&message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto number = static_cast<uint32_t>(value);
      return adds ? at.AddUInt32(&message, &field, number) : at.SetUInt32(&message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const auto number = static_cast<int64_t>(value);
      return adds ? at.AddInt64(&message, &field, number) : at.SetInt64(&message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const auto number = static_cast<float>(value);
      return adds ? at.AddFloat(&message, &field, number) : at.SetFloat(&message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return adds ? at.AddDouble(&message, &field, value) : at.SetDouble(&message, &field, value);
    default:
      throw Error(field.full_name(), " is no number");
  }
}

double standard_of(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return field.default_value_int32();
    case FieldDescriptor::CPPTYPE_UINT32:
      return field.default_value_uint32();
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return static_cast<double>(field.default_value_float());
    default:
      return field.default_value_double();
  }
}

/// Entries of a subject have text of the whole.
bool is_of_whole(const SettingsTrial& trial) {
  return trial.field.find(' ') != std::string::npos && !trial.here;
}

/// Whether a message has the path of fields.
bool has_path(const Descriptor* message, const std::string& path) {
  std::istringstream parts(path);
  const FieldDescriptor* field = nullptr;
  for (std::string part; std::getline(parts, part, '.');) {
    field = message == nullptr ? nullptr : message->FindFieldByName(part);
    if (field == nullptr) return false;
    message = field->message_type();
  }
  return field != nullptr;
}

}  // namespace

void add(std::string& bytes, double value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof raw);
}

void add_files(std::string& bytes, const fs::path& folder) {
  std::set<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) files.insert(entry.path());
  for (const fs::path& file : files) {
    bytes += file.string() + ';';
    std::ifstream in(file, std::ios::binary);
    if (fs::is_regular_file(file)) bytes.append(std::istreambuf_iterator<char>(in), {});
  }
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
}

Seen see(const std::function<void(Context& context, std::string& values)>& body) {
  Seen seen;
  std::mutex mutex;
  Context context({.threads = 1,
                   .engine = "reference",
                   .tune = false,
                   .logger = [&](Severity severity, const std::string& text) {
                     const std::lock_guard lock(mutex);
                     if (severity == Severity::warning) seen.warnings.insert(text);
                   }});
  try {
    body(context, seen.values);
  } catch (const std::exception& error) {
    seen.error = error.what();
  }
  return seen;
}

SettingsSweep::SettingsSweep(SettingsSubject subject) : subject_(std::move(subject)) {
  for (const SettingsTrial& trial : subject_.trials) {
    const bool added = trials_.emplace(trial.field, &trial).second;
    EXPECT_TRUE(added) << trial.field << " is twice in the table";
  }
}

SettingsSweep::Changes SettingsSweep::other_values(const Field& field) {
  Changes changes;
  const auto numbers = [&](std::initializer_list<double> values) {
    for (const double value : values) {
      if (field.has_default_value() && value == standard_of(field)) continue;
      std::ostringstream text;
      text << value;
      changes.emplace_back(text.str(),
                           [&field, value](Message& at) { set_number(at, field, value); });
    }
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      // A repeated one is true where it is not set.
      const bool value = !field.is_repeated() && !field.default_value_bool();
      changes.emplace_back(value ? "true" : "false", [&field, value](Message& at) {
        if (field.is_repeated()) {
          at.GetReflection()->AddBool(&at, &field, value);
        } else {
          at.GetReflection()->SetBool(&at, &field, value);
        }
      });
      break;
    }
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      numbers({1, 2, 3, 0, -1});
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      numbers({1, 2, 3, 0});
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      numbers({0.5, 0.25, 2, 0.75, 0});
      break;
    default:
      break;
  }
  return changes;
}

const SettingsTrial* SettingsSweep::trial_of(const Path& path, const Field& field,
                                             const std::string& value) {
  for (const std::string& name : {text(subject_.name, " ", path_text(path, field)),
                                  text(field.containing_type()->name(), ".", field.name())}) {
    for (const std::string& key : {name + value, name}) {
      const auto found = trials_.find(key);
      if (found != trials_.end()) return found->second;
    }
  }
  return nullptr;
}

void SettingsSweep::run(const Path& path) {
  const Seen& before = seen(*subject_.make(""), "");
  if (!before.error.empty()) {
    ADD_FAILURE() << subject_.name << " does not run: " << before.error;
    return;
  }
  run_message(path);
}

void SettingsSweep::run_message(const Path& path) {
  const Descriptor& message =
      path.empty() ? *subject_.make("")->GetDescriptor() : *path.back()->message_type();
  for (int i = 0; i < message.field_count(); ++i) run_field(path, *message.field(i));
}

void SettingsSweep::run_field(const Path& path, const Field& field) {
  if (subject_.is_of_another(field)) return;
  if (field.message_type() != nullptr) {
    const SettingsTrial* whole = trial_of(path, field);
    if (whole != nullptr && (!whole->because.empty() || !whole->set.empty()))
      return try_with(path, field, "", whole, {});
    Path inner = path;
    inner.push_back(&field);
    if (whole != nullptr) around_.emplace_back(whole, path);
    run_message(inner);
    if (whole != nullptr) around_.pop_back();
    return;
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM)
    return try_with(path, field, "", trial_of(path, field), other_values(field));
  for (int v = 0; v < field.enum_type()->value_count(); ++v) {
    const EnumValueDescriptor& value = *field.enum_type()->value(v);
    if (field.has_default_value() && field.default_value_enum() == &value) continue;
    const std::string name = text("=", value.name());
    const Change change = [&field, &value](Message& at) {
      if (field.is_repeated()) {
        at.GetReflection()->AddEnum(&at, &field, &value);
      } else {
        at.GetReflection()->SetEnum(&at, &field, &value);
      }
    };
    try_with(path, field, name, trial_of(path, field, name), {{name, change}});
  }
}

void SettingsSweep::try_with(const Path& path, const Field& field, const std::string& value,
                             const SettingsTrial* trial, Changes changes) {
  const std::string name = text(subject_.name, " ", path_text(path, field), value);
  if (trial != nullptr && !trial->because.empty()) {
    EXPECT_TRUE(subject_.is_documented(field))
        << name << ": no documentation says that it has no effect";
    return;
  }
  std::string base;
  for (const auto& [around, place] : around_)
    if (!around->base.empty()) base = around->base;
  if (trial != nullptr && !trial->base.empty()) base = trial->base;
  const std::unique_ptr<Message> before = subject_.make(base);
  for (const auto& [around, place] : around_) give(*around, place, *before);
  if (trial != nullptr) give(*trial, path, *before);
  if (trial != nullptr && !trial->set.empty()) {
    changes = {{trial->set, [&](Message& whole) {
                  merge(trial->set, is_of_whole(*trial) ? whole : message_at(path, whole));
                }}};
  }
  const Seen without = seen(*before, base);
  const auto names_field = [&](const std::string& line) {
    const auto names = [&](const Field* part) {
      return line.find(part->name()) != std::string::npos;
    };
    return names(&field) || std::any_of(path.begin() + static_cast<std::ptrdiff_t>(
                                                           std::min(subject_.own, path.size())),
                                        path.end(), names);
  };
  // Or the message says so of a setting beside it that is given.
  const auto has = [&](const char* words) {
    return without.error.find(words) != std::string::npos;
  };
  if (has("is not implemented by this layer") ||
      (names_field(without.error) && (has("remove") || has("keep one"))))
    return;
  if (!without.error.empty()) {
    ADD_FAILURE() << name << ": without it: " << without.error;
    return;
  }
  std::string why = changes.empty() ? ": the table has to say what to set" : "";
  size_t refused = 0;
  for (const auto& [written, change] : changes) {
    const std::unique_ptr<Message> after(before->New());
    after->CopyFrom(*before);
    change(trial != nullptr && !trial->set.empty() ? *after : message_at(path, *after));
    const Seen& with = seen(*after, base);
    if (trial != nullptr && !trial->error.empty()) {
      if (with.error.find(trial->error) != std::string::npos) return;
      why += text("\n  ", written, ": no error with '", trial->error, "': ", with.error);
    } else if (!with.error.empty()) {
      refused += names_field(with.error) ? 1 : 0;
      why += text("\n  ", written, ": error: ", with.error);
    } else if (with.values != without.values) {
      return;
    } else {
      for (const std::string& warning : with.warnings) {
        if (without.warnings.count(warning) == 0 && names_field(warning)) return;
      }
      why += text("\n  ", written, ": no effect");
    }
  }
  if (refused > 0 && refused == changes.size()) return;
  ADD_FAILURE() << name << why;
}

const Seen& SettingsSweep::seen(const Message& whole, const std::string& base) {
  const std::string key = base + '\n' + whole.SerializePartialAsString();
  const auto found = seen_.find(key);
  if (found != seen_.end()) return found->second;
  return seen_.emplace(key, subject_.run(whole, base)).first->second;
}

void SettingsSweep::give(const SettingsTrial& trial, const Path& path, Message& whole) const {
  if (!trial.given.empty())
    merge(trial.given, is_of_whole(trial) ? whole : message_at(path, whole));
}

void SettingsSweep::merge(const std::string& text, Message& into) const {
  google::protobuf::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  if (!parser.MergeFromString(subject_.expand(text), &into))
    throw Error("no text of ", into.GetDescriptor()->name(), ": ", text);
}

const FieldDescriptor& field_of(const Descriptor& message, const std::string& name) {
  const FieldDescriptor* field = message.FindFieldByName(name);
  if (field == nullptr) throw Error(message.name(), " has no field ", name);
  return *field;
}

void check_trials(const std::vector<SettingsTrial>& trials, const Descriptor& whole,
                  const std::function<bool(const std::string& subject)>& is_subject) {
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  for (const SettingsTrial& trial : trials) {
    const std::string name = trial.field.substr(0, trial.field.find('='));
    const size_t space = name.find(' '), dot = name.find('.');
    const bool is_there =
        space != std::string::npos
            ? is_subject(name.substr(0, space)) && has_path(&whole, name.substr(space + 1))
            : has_path(pool.FindMessageTypeByName("crema." + name.substr(0, dot)),
                       name.substr(dot + 1));
    EXPECT_TRUE(is_there) << trial.field;
  }
}

}  // namespace crema::test
