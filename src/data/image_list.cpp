#include "data/image_list.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "crema/error.hpp"
#include "data/text_list.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

ListedImage parse_line(std::string_view line) {
  const size_t blank = line.find_last_of(" \t\r\v\f");
  if (blank == std::string_view::npos)
    throw Error("'", line, "' has no label; a line is the file's name, a blank and a number");
  const std::string_view number = line.substr(blank + 1);
  ListedImage image;
  image.file = trimmed(line.substr(0, blank));
  const char* const end = number.data() + number.size();
  const auto [stopped, code] = std::from_chars(number.data(), end, image.label);
  if (code != std::errc() || stopped != end)
    throw Error("the label '", number, "' of '", image.file,
                "' is no whole number of 32 bits; a line is the file's name, a blank and a number");
  return image;
}

class ImageListReader final : public RecordReader {
 public:
  ImageListReader(std::shared_ptr<const std::vector<ListedImage>> images, std::string list,
                  std::string root)
      : images_(std::move(images)), list_(std::move(list)), root_(std::move(root)) {}

  Record read(int64_t index) override {
    const ListedImage& image = images_->at(static_cast<size_t>(index));
    const std::string path = image_path(root_, image.file);
    key_ = key(index);
    in_image(path, list_, image.line, [&] {
      read_file_bytes(path, *datum_.mutable_data());
      datum_.set_encoded(true);
      datum_.set_label(image.label);
      if (!datum_.SerializeToString(&value_)) throw Error("it is too large: a file may have 2 GiB");
    });
    return {key_, value_};
  }
  std::string key(int64_t index) override {
    const ListedImage& image = images_->at(static_cast<size_t>(index));
    return concat("line ", image.line, ": ", image_path(root_, image.file));
  }

 private:
  std::shared_ptr<const std::vector<ListedImage>> images_;
  std::string list_, root_;
  std::string key_, value_;
  Datum datum_;
};

class ImageListSource final : public RecordSource {
 public:
  ImageListSource(const std::string& list, const std::string& root)
      : list_(list),
        root_(root),
        images_(std::make_shared<const std::vector<ListedImage>>(read_image_list(list))) {}

  int64_t count() const override { return static_cast<int64_t>(images_->size()); }
  std::string name() const override { return "list '" + list_ + "'"; }
  std::unique_ptr<RecordReader> reader(Access) override {
    return std::make_unique<ImageListReader>(images_, list_, root_);
  }

 private:
  std::string list_, root_;
  std::shared_ptr<const std::vector<ListedImage>> images_;
};

}  // namespace

std::vector<ListedImage> read_image_list(const std::string& path) {
  std::vector<ListedImage> images;
  read_text_list(path, "lines 'file label'", [&](std::string_view text, int64_t line) {
    images.push_back(parse_line(text));
    images.back().line = line;
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
  if (!file.good()) throw Error("cannot open it: ", std::strerror(errno));
  bytes.clear();
  std::array<char, 1 << 16> piece;
  while (file.read(piece.data(), piece.size()).gcount() > 0 || file.good()) {
    bytes.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) throw Error("cannot read it");
}

std::shared_ptr<RecordSource> open_image_list(const std::string& list, const std::string& root) {
  return std::make_shared<ImageListSource>(list, root);
}

}  // namespace crema
