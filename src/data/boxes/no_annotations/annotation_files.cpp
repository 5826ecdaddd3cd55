// For builds without pugixml and JSON for Modern C++.
#include "data/boxes/annotation_files.hpp"

#include "crema/error.hpp"

namespace crema {
namespace {

[[noreturn]] void refuse(const char* form) {
  throw Error("cannot read boxes in ", form,
              ": this build of Crema has no library for it; build with CREMA_ANNOTATIONS=ON "
              "(packages libpugixml-dev, nlohmann-json3-dev), or write them as text "
              "(--label_type=txt or yolo)");
}

}  // namespace

AnnotationFile parse_voc_xml(const std::string&, const LabelNames&) { refuse("XML"); }
void add_voc_classes(const std::string&, std::set<std::string>&) { refuse("XML"); }
AnnotationFile parse_coco_image(const std::string&, const LabelNames&) { refuse("JSON"); }
CocoDataset read_coco_dataset(const std::string&, const LabelNames&) { refuse("JSON"); }

}  // namespace crema
