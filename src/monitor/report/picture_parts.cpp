#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "crema/error.hpp"
#include "monitor/report/page.hpp"
#include "monitor/report/parts.hpp"

namespace crema {
namespace {

constexpr int kSmallSide = 100;  // of images whose pixels are to be seen

std::string data_address(const std::string& type, const std::string& bytes) {
  return text("data:image/", type == "jpeg" ? "jpeg" : "png", ";base64,", base64(bytes));
}

std::string image_of_picture(const Evaluation::Picture& picture, const std::string& alt) {
  return text("<img loading=\"lazy\" width=\"", picture.width(), "\" height=\"", picture.height(),
              "\" alt=\"", html(alt), "\" src=\"", data_address(picture.type(), picture.image()),
              "\" />");
}

const char* frame_of(const Evaluation::Picture& picture) {
  return picture.width() < kSmallSide ? "<div class=\"image small\">" : "<div class=\"image\">";
}

std::string key_line(const Evaluation::Picture& picture) {
  return picture.key().empty() ? ""
                               : "<br /><span class=\"faint\">" + html(picture.key()) + "</span>";
}

std::string relative(double value) {
  char words[24];
  std::snprintf(words, sizeof words, "%.4f", std::isfinite(value) ? value : 0);
  return words;
}

std::string boxes_of(const Evaluation::Picture& picture, const ClassLabels& names) {
  std::string frames, tags;
  for (const auto& box : picture.boxes()) {
    const std::string place =
        text("x=\"", relative(box.left()), "\" y=\"", relative(box.top()), "\" width=\"",
             relative(std::max(0.0, box.right() - box.left())), "\" height=\"",
             relative(std::max(0.0, box.bottom() - box.top())), "\"");
    if (box.is_truth()) {
      frames += text("<rect class=\"truth-shadow\" ", place, " /><rect class=\"box truth\" ", place,
                     "><title>true: ", html(names(box.label())), "</title></rect>");
      continue;
    }
    const std::string words =
        text(names(box.label()), " ", value_words(std::round(box.score() * 100) / 100));
    frames += text("<rect class=\"box\" style=\"--b:", class_color(box.label()), "\" ", place,
                   "><title>", html(words), "</title></rect>");
    tags += text("<span class=\"tag", box.top() < 0.08 ? " under" : "",
                 "\" style=\"--b:", class_color(box.label()),
                 ";left:", relative(100 * std::clamp(box.left(), 0.0, 1.0)),
                 "%;top:", relative(100 * std::clamp(box.top(), 0.0, 1.0)), "%\">", html(words),
                 "</span>");
  }
  return "<svg viewBox=\"0 0 1 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">" + frames +
         "</svg>" + tags;
}

std::string box_words(const Evaluation::Picture& picture, const ClassLabels& names) {
  std::string found, truth;
  for (const auto& box : picture.boxes()) {
    std::string& words = box.is_truth() ? truth : found;
    words += text(words.empty() ? "" : ", ", names(box.label()));
  }
  return text("true: ", truth.empty() ? "nothing" : truth,
              "; found: ", found.empty() ? "nothing" : found);
}

std::string layer_of_mask(const std::string& png) {
  return text("<img class=\"over\" loading=\"lazy\" alt=\"\" src=\"", data_address("png", png),
              "\" />");
}

}  // namespace

std::string mistakes_part(const Evaluation& evaluation) {
  const Evaluation::Classes& of = evaluation.classes();
  if (of.mistakes_size() == 0) return "";
  const ClassLabels names(of.classes());
  std::string all =
      "<p class=\"faint\">Images of another class than the net names, those of which it is most "
      "sure first; as the net sees them.</p>\n<ul class=\"pictures\">";
  for (const auto& one : of.mistakes()) {
    const std::string label = names(one.label()), prediction = names(one.prediction());
    all += text("<li>", frame_of(one),
                image_of_picture(one, text("A ", label, " that the net takes for ", prediction)),
                "</div><b>", html(label), "</b>",
                one.has_own_score() ? " " + share_words(one.own_score()) : "", ", taken for <b>",
                html(prediction), "</b> ", share_words(one.score()), key_line(one), "</li>\n");
  }
  return all + "</ul>\n";
}

std::string boxes_part(const Evaluation& evaluation) {
  std::string all;
  for (const auto& one : evaluation.detections()) {
    if (one.pictures_size() == 0) continue;
    const ClassLabels names(one.classes());
    all +=
        "<p class=\"faint\">What the net finds, with its confidence; dashed: the true boxes.</p>\n"
        "<ul class=\"pictures wide\">";
    for (const auto& picture : one.pictures())
      all += text("<li>", frame_of(picture), image_of_picture(picture, box_words(picture, names)),
                  boxes_of(picture, names), "</div>", html(box_words(picture, names)),
                  key_line(picture), "</li>\n");
    all += "</ul>\n";
  }
  return all;
}

std::string masks_part(const Evaluation& evaluation) {
  const Evaluation::Classes& of = evaluation.classes();
  if (of.masks_size() == 0) return "";
  const ClassLabels names(of.classes());
  std::string all =
      "<p class=\"faint\">Left: the labels over the image. Right: what the net says.</p>\n<ul "
      "class=\"swatches\">";
  for (const auto& one : of.classes()) {
    if (one.support() > 0 || one.predicted() > 0)
      all += text("<li><i style=\"background:", class_color(one.label()), "\"></i>",
                  html(names(one.label())), "</li>");
  }
  all += "</ul>\n<ul class=\"pictures wide\">";
  for (const auto& picture : of.masks()) {
    all += text(
        "<li><div class=\"pair\">", frame_of(picture),
        image_of_picture(picture, "The labels of an image"), layer_of_mask(picture.truth_mask()),
        "</div>", frame_of(picture), image_of_picture(picture, "What the net says of it"),
        layer_of_mask(picture.mask()), "</div></div>",
        picture.has_accuracy() ? share_words(picture.accuracy()) + " of its pixels are right" : "",
        key_line(picture), "</li>\n");
  }
  return all + "</ul>\n";
}

}  // namespace crema
