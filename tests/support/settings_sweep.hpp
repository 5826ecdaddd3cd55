// "No accepted setting is without effect": sets each field of messages to a value other than its
// default. What is seen of a run has to change, or a warning has to name the field.
//
// Without an entry in the table, the value is found by the field's type. An entry is for a field
// that needs more:
//
//   {.field = "FillerParameter.std", .given = "type: 'gaussian'"}
//       the field has an effect beside other settings only (in both runs), here those of its own
//       message, wherever that is
//   {.field = "Convolution convolution_param.pad_h", .set = "convolution_param { pad_h: 1 }",
//    .base = "Convolution of kernel_h"}
//       of one subject: what is set, as text of the whole (with `.here = true` of the message that
//       has the field), and another base to set it in
//   {.field = "InterpParameter.height", .set = "height: -1", .error = "height -1"}
//       the value is refused, with this in the message; without an entry, every value that is tried
//       has to be refused with a message that names the field, or a message around it
//   {.field = "ConvolutionParameter.engine", .because = "engine choice of Caffe; changes no
//   result"}
//       there is no effect, and the documentation says so
//
// `field` is "subject path" or "Message.field", the first found of these; for a value of an enum,
// "=VALUE" may follow. An entry for a field that holds a message is for all fields of that message;
// its base and what is given hold beside those of their own entries.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crema/context.hpp"

namespace crema::test {

struct SettingsTrial {
  std::string field;
  std::string set = {}, given = {}, error = {}, because = {}, base = {};
  bool here = false;
};

/// What a run does that can be seen.
struct Seen {
  std::string values;  // bytes of all results
  std::set<std::string> warnings;
  std::string error;
};

/// Of results: as bytes.
void add(std::string& bytes, double value);
/// The files in a folder, which is emptied.
void add_files(std::string& bytes, const std::filesystem::path& folder);
/// Runs the body with a context whose warnings are seen, and its Error.
Seen see(const std::function<void(Context& context, std::string& values)>& body);

/// What is swept over.
struct SettingsSubject {
  std::string name;
  const std::vector<SettingsTrial>& trials;
  /// So many fields of a path lead to the subject; messages behind them may be refused whole.
  size_t own = 1;
  /// The message in which settings are set; "" for the standard one.
  std::function<std::unique_ptr<google::protobuf::Message>(const std::string& base)> make;
  std::function<Seen(const google::protobuf::Message& whole, const std::string& base)> run;
  /// Whether the documentation says that the field is without effect.
  std::function<bool(const google::protobuf::FieldDescriptor& field)> is_documented;
  /// Whether another sweep is for the field.
  std::function<bool(const google::protobuf::FieldDescriptor& field)> is_of_another =
      [](const google::protobuf::FieldDescriptor&) { return false; };
  /// Of texts in the table.
  std::function<std::string(std::string text)> expand = [](std::string text) { return text; };
};

class SettingsSweep {
 public:
  using Field = google::protobuf::FieldDescriptor;
  using Path = std::vector<const Field*>;

  explicit SettingsSweep(SettingsSubject subject);

  /// Tries the fields of the message that `path` leads to from the whole, and of messages in it.
  void run(const Path& path);

 private:
  using Change = std::function<void(google::protobuf::Message&)>;
  using Changes = std::vector<std::pair<std::string, Change>>;

  static Changes other_values(const Field& field);
  const SettingsTrial* trial_of(const Path& path, const Field& field,
                                const std::string& value = "");
  void run_message(const Path& path);
  void run_field(const Path& path, const Field& field);
  void try_with(const Path& path, const Field& field, const std::string& value,
                const SettingsTrial* trial, Changes changes);
  const Seen& seen(const google::protobuf::Message& whole, const std::string& base);
  void merge(const std::string& text, google::protobuf::Message& into) const;
  /// Merges what an entry gives into the whole; `path` leads to the message with its field.
  void give(const SettingsTrial& trial, const Path& path, google::protobuf::Message& whole) const;

  SettingsSubject subject_;
  std::map<std::string, const SettingsTrial*> trials_;
  std::map<std::string, Seen> seen_;
  std::vector<std::pair<const SettingsTrial*, Path>> around_;  // entries of messages around a field
};

/// The field of a message, which has it.
const google::protobuf::FieldDescriptor& field_of(const google::protobuf::Descriptor& message,
                                                  const std::string& name);

/// Fails for entries whose field there is not. `is_subject`: whether there is one of the name.
void check_trials(const std::vector<SettingsTrial>& trials,
                  const google::protobuf::Descriptor& whole,
                  const std::function<bool(const std::string& subject)>& is_subject);

}  // namespace crema::test
