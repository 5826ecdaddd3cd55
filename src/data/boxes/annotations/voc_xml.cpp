// Boxes in the form of PASCAL VOC, with pugixml.
#include <cstring>
#include <pugixml.hpp>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "data/boxes/annotation_files.hpp"
#include "data/records/image_list.hpp"
#include "data/records/text_list.hpp"

namespace crema {
namespace {

std::string_view text_of(const pugi::xml_node& node) { return trimmed(node.child_value()); }

/// The root of the file. Error for another text.
pugi::xml_node annotation_of(pugi::xml_document& document, const std::string& text) {
  const pugi::xml_parse_result result = document.load_buffer(text.data(), text.size());
  if (!result)
    throw Error("line ", line_at(text, static_cast<size_t>(result.offset)), ": it is no XML (",
                result.description(), "); give --label_type for files of another form");
  const pugi::xml_node root = document.child("annotation");
  if (!root)
    throw Error("it is XML without <annotation>; PASCAL VOC writes <annotation> with <object>");
  return root;
}

class VocReader {
 public:
  VocReader(const std::string& text, const LabelNames& names) : text_(text), names_(names) {}

  AnnotationFile read() {
    pugi::xml_document document;
    const pugi::xml_node root = annotation_of(document, text_);
    const pugi::xml_node size = root.child("size");
    file_.image = {side(size, "height"), side(size, "width")};
    for (const pugi::xml_node& object : root.children("object")) add(object);
    return std::move(file_);
  }

 private:
  /// 0 for a side that is missing or no number: the image's own counts.
  static int64_t side(const pugi::xml_node& size, const char* name) {
    const auto value = parse_number<double>(text_of(size.child(name)));
    return value && *value >= 1 && *value < 1e6 ? static_cast<int64_t>(*value) : 0;
  }

  void add(const pugi::xml_node& object) {
    const std::string name(text_of(object.child("name")));
    const auto number = static_cast<int64_t>(file_.boxes.size()) + 1;
    const int line =
        line_at(text_, static_cast<size_t>(std::max<std::ptrdiff_t>(object.offset_debug(), 0)));
    RawBox box{.labeled = {}, .where = text("line ", line, ": object ", number, " ('", name, "')")};
    try {
      if (name.empty()) throw Error("it has no <name>");
      box.labeled.label = label(name);
      box.labeled.difficult = text_of(object.child("difficult")) == "1";
      const pugi::xml_node edges = object.child("bndbox");
      if (!edges) throw Error("it has no <bndbox>");
      box.labeled.box = {edge(edges, "xmin"), edge(edges, "ymin"), edge(edges, "xmax"),
                         edge(edges, "ymax")};
    } catch (const Error& error) {
      throw Error(box.where, ": ", error.message());
    }
    file_.boxes.push_back(std::move(box));
  }

  int32_t label(const std::string& name) const {
    if (names_.empty())
      throw Error("its class is a name, and there is no label map; give --label_map_file");
    return label_of_name(name, names_);
  }

  static double edge(const pugi::xml_node& edges, const char* name) {
    const std::string_view text = text_of(edges.child(name));
    const auto value = parse_number<double>(text);
    if (!value) throw Error("its <", name, "> is '", text, "', which is no number");
    return *value;
  }

  const std::string& text_;
  const LabelNames& names_;
  AnnotationFile file_;
};

}  // namespace

AnnotationFile parse_voc_xml(const std::string& text, const LabelNames& names) {
  return VocReader(text, names).read();
}

void add_voc_classes(const std::string& path, std::set<std::string>& names) {
  std::string text;
  read_file_bytes(path, text);
  try {
    pugi::xml_document document;
    for (const pugi::xml_node& object : annotation_of(document, text).children("object"))
      names.emplace(text_of(object.child("name")));
    names.erase("");  // an Error where the boxes are read
  } catch (const Error& error) {
    throw Error("'", path, "': ", error.message());
  }
}

}  // namespace crema
