// A file of boxes. The first byte chooses its form: XML, JSON, text, YOLO, or a data set of COCO.
#include "data/boxes/annotation_files.hpp"
#include "fuzz/target.hpp"

using namespace crema;

namespace {

/// They lie in their image.
void look_at(const std::vector<LabeledBox>& boxes) {
  for (const auto& [label, instance, difficult, box] : boxes) {
    const bool inside = box.left >= 0 && box.top >= 0 && box.right <= 1 + 1e-9 &&
                        box.bottom <= 1 + 1e-9 && box.left <= box.right && box.top <= box.bottom;
    if (!inside || label < 0) fuzz::fail("a box outside of its image");
  }
}

const LabelNames& names() {
  static const LabelNames known = LabelNames::read(fuzz::write_input(
      "map.prototxt", reinterpret_cast<const uint8_t*>("item { name: 'a' label: 1 }"), 27));
  return known;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  if (count == 0) return 0;
  const unsigned choice = bytes[0];
  const LabelNames map = (choice & 8) != 0 ? LabelNames() : names();
  const std::string path = fuzz::write_input("boxes", bytes + 1, count - 1);
  fuzz::attempt_in_little_memory([&] {
    if ((choice & 7) == 4) {
      BoxOddities oddities;
      for (CocoImage& image : read_coco_dataset(path, map).images)
        look_at(checked_boxes(std::move(image.annotation.boxes), {10, 20}, 0, path, oddities));
      return;
    }
    AnnotationReading how;
    how.form = static_cast<AnnotationForm>(choice & 3);
    how.names = map;
    look_at(how.read(path, {10, 20}, 0));
  });
  return 0;
}
