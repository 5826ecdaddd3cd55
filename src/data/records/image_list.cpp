#include "data/records/image_list.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "data/images/image_name.hpp"
#include "data/records/class_list.hpp"
#include "data/records/text_list.hpp"
#include "model/file_kind.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

/// Where the last word of a text begins.
size_t last_word(std::string_view text) {
  const size_t blank = text.find_last_of(" \t\r\v\f");
  return blank == std::string_view::npos ? 0 : blank + 1;
}

bool has_extension(std::string_view file) { return !image_extension(file).empty(); }

/// Where the labels of a line begin, which is trimmed; 0: nowhere.
size_t begin_of_labels(std::string_view line) {
  const size_t one = last_word(line);
  if (one == 0) return 0;
  size_t begin = one;
  std::string_view file = trimmed(line.substr(0, begin));
  while (is_number(file.substr(last_word(file)))) {
    begin = last_word(file);
    file = trimmed(file.substr(0, begin));
  }
  return has_extension(file) ? begin : one;
}

ListedImage parse_line(std::string_view line) {
  constexpr const char* kLine = "; a line is the file's name, a blank and a number, or several";
  const size_t begin = begin_of_labels(line);
  if (begin == 0) throw Error("'", line, "' has no label", kLine);
  ListedImage image;
  image.file = trimmed(line.substr(0, begin));
  try {
    static_cast<RecordLabels&>(image) = labels_of(words_of(line.substr(begin)), image.file);
  } catch (const Error& error) {
    throw Error(error.message(), kLine);
  }
  return image;
}

class ImageFileReader final : public RecordReader {
 public:
  explicit ImageFileReader(std::shared_ptr<const ImageFiles> files) : files_(std::move(files)) {}

  Record read(int64_t index) override {
    const ListedImage& image = files_->images.at(static_cast<size_t>(index));
    const std::string path = image_path(files_->root, image.file);
    key_ = key(index);
    in_image(path, files_->list, image.line, [&] {
      read_file_bytes(path, *datum_.mutable_data());
      datum_.set_encoded(true);
      set_labels(image, datum_);
      if (!datum_.SerializeToString(&value_)) throw Error("it is too large: a file may have 2 GiB");
    });
    return {key_, value_};
  }
  std::string key(int64_t index) override {
    const ListedImage& image = files_->images.at(static_cast<size_t>(index));
    const std::string path = image_path(files_->root, image.file);
    return image.line > 0 ? text("line ", image.line, ": ", path) : path;
  }

 private:
  std::shared_ptr<const ImageFiles> files_;
  std::string key_, value_;
  Datum datum_;
};

class ImageFileSource final : public RecordSource {
 public:
  explicit ImageFileSource(ImageFiles files)
      : files_(std::make_shared<const ImageFiles>(std::move(files))) {}

  int64_t count() const override { return static_cast<int64_t>(files_->images.size()); }
  std::string name() const override { return files_->name; }
  bool is_files() const override { return true; }
  std::vector<std::string> files() const override {
    std::vector<std::string> paths;
    for (const ListedImage& image : files_->images)
      paths.push_back(image_path(files_->root, image.file));
    return paths;
  }
  std::vector<std::string> class_names() const override { return files_->class_names; }
  std::unique_ptr<RecordReader> reader(ReadOrder) override {
    return std::make_unique<ImageFileReader>(files_);
  }

 private:
  std::shared_ptr<const ImageFiles> files_;
};

}  // namespace

std::vector<ListedImage> read_image_list(const std::string& path) {
  std::vector<ListedImage> images;
  read_text_list(path, "lines 'file label'", [&](std::string_view text, int64_t line) {
    images.push_back(parse_line(text));
    images.back().line = line;
    const ListedImage &image = images.back(), &first = images.front();
    if (image.count() != first.count())
      throw Error("image '", image.file, "' has the labels ", text_of(image), ", and '", first.file,
                  "' of line ", first.line, " has ", text_of(first),
                  "; give all images the same number of labels");
  });
  return images;
}

std::string image_path(const std::string& root, const std::string& file) {
  // As published, the root is text before the name: "/" and "/data/a.jpg" make "//data/a.jpg".
  const bool slash = root.empty() || root.back() == '/';
  return root + (slash ? "" : "/") + file;
}

void read_file_bytes(const std::string& path, std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file.good())
    throw Error("cannot open it: ", std::strerror(errno), path_advice(path)).about(path);
  bytes.clear();
  std::array<char, 1 << 16> piece;
  while (file.read(piece.data(), piece.size()).gcount() > 0 || file.good()) {
    bytes.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) throw Error("cannot read it").about(path);
  const FileKind kind = kind_of(std::string_view(bytes).substr(0, kFileHeadSize));
  if (const std::string way_out = way_out_of(kind); !way_out.empty())
    throw Error("it is ", describe(kind), way_out);
}

std::shared_ptr<RecordSource> open_image_files(ImageFiles files) {
  return std::make_shared<ImageFileSource>(std::move(files));
}

void name_classes(ImageFiles& files, const std::string& class_names) {
  files.class_names = read_class_list(class_names);
  const auto classes = static_cast<int64_t>(files.class_names.size());
  for (const ListedImage& image : files.images) {
    if (!image.floats.empty() || image.label < 0 || image.label >= classes)
      throw Error("image '", image.file, "' has the label ", text_of(image), ", and class_names '",
                  class_names, "' has names of ", classes, " classes, from 0 on")
          .at({files.list, static_cast<int>(image.line), 0});
  }
}

std::shared_ptr<RecordSource> open_image_list(const std::string& list, const std::string& root,
                                              const std::string& class_names) {
  ImageFiles files{
      .name = "list '" + list + "'", .list = list, .root = root, .images = read_image_list(list)};
  if (!class_names.empty()) name_classes(files, class_names);
  return open_image_files(std::move(files));
}

}  // namespace crema
