#include "data/boxes/annotation.hpp"

#include <algorithm>
#include <cmath>

#include "crema/error.hpp"
#include "proto/detection.pb.h"

namespace crema {

std::vector<LabeledBox> boxes_of(const AnnotatedDatum& datum) {
  std::vector<LabeledBox> boxes;
  for (int g = 0; g < datum.annotation_group_size(); ++g) {
    const AnnotationGroup& group = datum.annotation_group(g);
    for (int a = 0; a < group.annotation_size(); ++a) {
      const Annotation& annotation = group.annotation(a);
      const NormalizedBBox& box = annotation.bbox();
      const auto refuse = [&](const auto&... why) {
        throw Error("box ", a, " of annotation group ", g, " ", why...,
                    "; write the database anew (crema convert-annotations)");
      };
      if (!group.has_group_label()) refuse("has no label");
      if (group.group_label() < 0) refuse("has the label ", group.group_label(), ", below 0");
      if (!annotation.has_bbox()) refuse("has no coordinates");
      for (const float value : {box.xmin(), box.ymin(), box.xmax(), box.ymax()}) {
        if (!std::isfinite(value)) refuse("has the coordinate ", value);
      }
      if (box.xmin() > box.xmax() || box.ymin() > box.ymax())
        refuse("goes from (", box.xmin(), ", ", box.ymin(), ") back to (", box.xmax(), ", ",
               box.ymax(), ")");
      boxes.push_back({.label = group.group_label(),
                       .instance = annotation.instance_id(),
                       .difficult = box.difficult(),
                       .box = {.left = static_cast<double>(box.xmin()),
                               .top = static_cast<double>(box.ymin()),
                               .right = static_cast<double>(box.xmax()),
                               .bottom = static_cast<double>(box.ymax())}});
    }
  }
  return boxes;
}

void set_boxes(std::span<const LabeledBox> boxes, AnnotatedDatum& datum) {
  auto& groups = *datum.mutable_annotation_group();
  groups.Clear();
  for (const LabeledBox& labeled : boxes) {
    auto group = std::ranges::find(groups, labeled.label, &AnnotationGroup::group_label);
    if (group == groups.end()) {
      groups.Add()->set_group_label(labeled.label);
      group = groups.end() - 1;
    }
    Annotation& annotation = *group->add_annotation();
    annotation.set_instance_id(group->annotation_size() - 1);
    NormalizedBBox& box = *annotation.mutable_bbox();
    box.set_xmin(static_cast<float>(labeled.box.left));
    box.set_ymin(static_cast<float>(labeled.box.top));
    box.set_xmax(static_cast<float>(labeled.box.right));
    box.set_ymax(static_cast<float>(labeled.box.bottom));
    box.set_difficult(labeled.difficult);
  }
}

Box to_pixels(const Box& box, ImageSize image) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  return {box.left * width, box.top * height, box.right * width, box.bottom * height};
}

Box to_relative(const Box& box, ImageSize image) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  return {box.left / width, box.top / height, box.right / width, box.bottom / height};
}

}  // namespace crema
