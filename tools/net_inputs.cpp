#include "tools/net_inputs.hpp"

#include <google/protobuf/message.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "crema/error.hpp"
#include "crema/layer.hpp"
#include "data/databases/database_folder.hpp"
#include "proto/layer.pb.h"
#include "tools/output_file.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<void(const std::string& path)>;

bool names_an_input(const std::string& field) {
  // save_file is written.
  return field == "source" || field == "class_names" ||
         (field.ends_with("_file") && !field.starts_with("save_"));
}

/// Visits the files and databases that a layer's settings name, told by the names of the fields.
void visit_named(const google::protobuf::Message& settings, const Visit& visit) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& values = *settings.GetReflection();
  std::vector<const Field*> fields;
  values.ListFields(settings, &fields);
  for (const Field* field : fields) {
    if (field->is_repeated()) continue;
    if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      visit_named(values.GetMessage(settings, field), visit);
    } else if (field->cpp_type() == Field::CPPTYPE_STRING && names_an_input(field->name())) {
      const fs::path input = values.GetString(settings, field);
      // A database may be named by a file in it.
      const bool in_database = is_database_file(input.filename().string());
      visit(in_database ? (input.parent_path() / ".").string() : input.string());
    }
  }
}

}  // namespace

void check_not_read(const std::string& output, const Net& net) {
  std::error_code unknown;
  const bool is_file = fs::is_regular_file(output, unknown);
  for (const Layer* layer : net.layers()) {
    const auto refuse_if = [&](bool is_read) {
      if (is_read)
        throw Error("'", output, "' is read by layer '", layer->param().name(),
                    "' of the net; give another output");
    };
    visit_named(layer->param(),
                [&](const std::string& input) { refuse_if(is_same_file(output, input)); });
    // Lists may be long, and what they name is there already.
    if (!is_file) continue;
    for (const std::string& input : layer->input_files()) {
      std::error_code missing;
      refuse_if(fs::equivalent(output, input, missing));
    }
  }
}

}  // namespace crema::tools
