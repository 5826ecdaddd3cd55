#include "model/text_format.hpp"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "model/binary_format.hpp"
#include "model/field_advice.hpp"
#include "model/file_kind.hpp"
#include "model/model_folders.hpp"
#include "model/text_diagnosis.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr size_t kMostBytes = size_t{1} << 30;

std::string_view wanted_file(const Descriptor& type) {
  if (&type == NetParameter::descriptor()) return "net prototxt";
  if (type.name() == "SolverParameter") return "solver prototxt";
  return "prototxt";
}

// Where files of other kinds are to be given.
std::string advice(FileKind kind) {
  switch (kind) {
    case FileKind::hdf5:
    case FileKind::binary:
    case FileKind::pytorch:
    case FileKind::safetensors:
    case FileKind::keras:
      return "; name the prototxt here, and give weights and snapshots where those are asked for";
    case FileKind::wide_text:
      return "; save it as UTF-8";
    case FileKind::compressed:
      return "; unpack it first";
    case FileKind::lfs_pointer:
    case FileKind::web_page:
      return way_out_of(kind);
    default:
      return "; name the prototxt";
  }
}

void require_text(const std::string& path, FileKind kind, std::string_view wanted) {
  if (kind == FileKind::text || kind == FileKind::empty) return;
  std::string what(describe(kind));
  if (kind == FileKind::binary) {
    if (const Descriptor* message = guess_message(path)) what = text("a ", describe(*message));
  }
  throw Error("'", path, "' is not a ", wanted, " but ", what, advice(kind));
}

// Whether the text has nothing but white space and comments.
bool is_blank(std::string_view text) {
  bool comment = false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    if (c == '#') comment = true;
    if (c == '\n') comment = false;
    return comment || std::isspace(static_cast<unsigned char>(c)) != 0;
  });
}

// Throws at the first required field that is missing.
void check_required(const Message& message, const SourceMap& map) {
  std::vector<std::string> missing;
  message.FindInitializationErrors(&missing);
  if (missing.empty()) return;
  const std::string& path = missing.front();
  const size_t dot = path.rfind('.');
  const std::string around = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string field = dot == std::string::npos ? path : path.substr(dot + 1);
  throw Error("required field '", field, "' is missing", around.empty() ? "" : " in " + around)
      .at(map.position(around));
}

}  // namespace

void parse_text_proto(std::string_view text, const std::string& name, Message& out,
                      SourceMap* map) {
  const Descriptor& type = *out.GetDescriptor();
  auto parsed = std::make_shared<SourceMap::Parsed>(SourceText(name, text), &type);
  const SourceText& source = parsed->source;
  if (is_blank(source.text())) {
    throw Error("this ", wanted_file(type), " is empty: it has no field at all").at({name});
  }

  FirstMessage error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&parsed->places);
  parser.AllowPartialMessage(true);  // check_required says where
  if (!parser.ParseFromString(source.text(), &out)) {
    throw diagnose(source, out, parsed->places, error);
  }
  const SourceMap places(std::move(parsed));
  check_required(out, places);
  if (map != nullptr) *map = places;
}

void read_text_proto(const std::string& named, Message& out, SourceMap* map) {
  const std::string_view wanted = wanted_file(*out.GetDescriptor());
  const std::string path = find_model_file(named);
  require_file(path, wanted, ".prototxt", where_models_were_sought(path));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error("cannot open ", wanted, " '", path, "': ", std::strerror(errno)).about(path);
  std::string text;
  std::vector<char> chunk(size_t{1} << 20);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0) {
    const std::string_view piece(chunk.data(), static_cast<size_t>(file.gcount()));
    if (text.empty()) require_text(path, kind_of(piece.substr(0, kFileHeadSize)), wanted);
    text += piece;
    if (text.size() > kMostBytes) {
      throw Error("'", path, "' is too large for a ", wanted, ": more than ", kMostBytes >> 20,
                  " MiB");
    }
  }
  parse_text_proto(text, path, out, map);
}

std::string prototxt_of(const Message& message) {
  TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  printer.SetUseShortRepeatedPrimitives(false);
  std::string text;
  if (!printer.PrintToString(message, &text))
    throw Error(message.GetTypeName(), " cannot be written as text");
  return text;
}

void write_text_proto_atomically(const std::string& path, const Message& message) {
  WholeFile file(path);
  file.append(prototxt_of(message));
  file.finish();
}

void check_layer_mix(const NetParameter& net, const SourceMap& map) {
  if (net.layer_size() == 0 || net.layers_size() == 0) return;
  const Position layer = map.position("layer[0]");
  const Position layers = map.position("layers[0]");
  const auto line = [](const Position& place) {
    return place.line > 0 ? text(" (line ", place.line, ")") : std::string();
  };
  throw Error("the net has both `layer`", line(layer), " and `layers`", line(layers),
              "; `layers` is the old form: write all of them as `layer { type: \"...\" }`")
      .at(layer.line > layers.line ? layer : layers);
}

void check_has_layers(const NetParameter& net, const SourceMap& map) {
  if (net.layer_size() > 0 || net.layers_size() > 0) return;
  throw Error("the net has no layers; is this the right file?").at({map.file()});
}

}  // namespace crema
