#include "tools/net_inputs.hpp"

#include <google/protobuf/message.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "crema/error.hpp"
#include "crema/layer.hpp"
#include "data/databases/database_folder.hpp"
#include "data/databases/file_pattern.hpp"
#include "data/images/image_name.hpp"
#include "data/records/image_list.hpp"
#include "data/records/pair_list.hpp"
#include "data/records/text_list.hpp"
#include "layers/window_data/window_file.hpp"
#include "model/file_kind.hpp"
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

void visit_lines(const std::string& list, const Visit& visit) {
  read_text_list(list, "paths of files, one a line",
                 [&](std::string_view text, int64_t) { visit(std::string(text)); });
}

void visit_images(const std::string& list, const std::string& root, const Visit& visit) {
  for (const ListedImage& image : read_image_list(list)) visit(image_path(root, image.file));
}

/// Visits the images in the folders of a folder.
void visit_folder(const std::string& folder, const Visit& visit) {
  const auto options = fs::directory_options::follow_directory_symlink |
                       fs::directory_options::skip_permission_denied;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, options, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at.depth() > 0) at.disable_recursion_pending();
    if (is_image_name(at->path().filename().string())) visit(at->path().string());
  }
}

void visit_source(const DataParameter& data, const Visit& visit) {
  const std::string& source = data.source();
  if (data.backend() == DataParameter::IMAGE_LIST) {
    visit_images(source, data.root_folder(), visit);
  } else if (data.backend() == DataParameter::FOLDER) {
    visit_folder(source, visit);
  } else if (data.backend() == DataParameter::TAR) {
    std::error_code unknown;
    if (fs::is_regular_file(source, unknown) && kind_of_file(source) == FileKind::text) {
      visit_lines(source, visit);
    } else {
      for (const std::string& file : files_of(source)) visit(file);
    }
  }
}

/// Visits the files of the list, pattern or folder that a layer reads, if it reads one.
void visit_listed(const LayerParameter& layer, const Visit& visit) {
  if (layer.type() == "HDF5Data") {
    visit_lines(layer.hdf5_data_param().source(), visit);
  } else if (layer.type() == "Data") {
    visit_source(layer.data_param(), visit);
  } else if (layer.type() == "ImageData") {
    const ImageDataParameter& images = layer.image_data_param();
    visit_images(images.source(), images.root_folder(), visit);
  } else if (layer.type() == "DenseImageData") {
    const DenseImageDataParameter& images = layer.dense_image_data_param();
    for (const ListedPair& pair : read_pair_list(images.source(), "lines 'image labelmap'")) {
      visit(image_path(images.root_folder(), pair.image));
      visit(image_path(images.root_folder(), pair.beside));
    }
  } else if (layer.type() == "WindowData") {
    const WindowDataParameter& windows = layer.window_data_param();
    const WindowRules rules{.root = windows.root_folder(),
                            .fg_threshold = windows.fg_threshold(),
                            .bg_threshold = windows.bg_threshold()};
    for (const WindowImage& image : read_window_file(windows.source(), rules).images)
      visit(image.path);
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
    visit_listed(layer->param(), [&](const std::string& input) {
      std::error_code missing;
      refuse_if(fs::equivalent(output, input, missing));
    });
  }
}

}  // namespace crema::tools
