#include "data/tar_source.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "data/class_names.hpp"
#include "data/file_pattern.hpp"
#include "data/image_name.hpp"
#include "data/libarchive/tar_members.hpp"
#include "data/record_labels.hpp"
#include "data/text_list.hpp"
#include "model/file_kind.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

constexpr int64_t kMostLabelBytes = 1 << 16;
constexpr int64_t kMostImageBytes = (int64_t{1} << 31) - 65536;  // a record holds 2 GiB

struct TarImage : RecordLabels {
  TarMember member;
  size_t file = 0;  // index of the tar file
};

struct TarImages {
  std::string name;  // of the source, for messages
  std::vector<TarFile> files;
  std::vector<TarImage> images;

  std::string key(const TarImage& image) const {
    return files[image.file].path + ": " + image.member.path;
  }
};

size_t begin_of_name(std::string_view path) { return path.rfind('/') + 1; }  // npos + 1 is 0

/// The path before the first dot of its name: what the members of a sample have in common.
std::string stem_of(const std::string& path) {
  return path.substr(0, path.find('.', begin_of_name(path)));
}

std::string class_of(const std::string& path) {
  const size_t end = begin_of_name(path);
  if (end == 0) return {};
  const std::string_view folder = std::string_view(path).substr(0, end - 1);
  return std::string(folder.substr(begin_of_name(folder)));
}

/// Lists tar files, and finds the labels of their images.
class TarLister {
 public:
  explicit TarLister(TarImages& all) : all_(all) {}

  void list(const std::string& path) {
    const size_t first = all_.images.size();
    std::map<std::string, TarMember> labels;  // by their stems
    const TarFile file = list_tar(path, [&](const TarMember& member) {
      if (member.path[begin_of_name(member.path)] == '.') return;  // hidden
      if (is_image_name(member.path)) return add_image(member);
      const std::string kind = member.path.substr(stem_of(member.path).size());
      // cls is for labels only; a txt may be anything.
      if (kind == ".cls") labels.insert_or_assign(stem_of(member.path), member);
      if (kind == ".txt") labels.emplace(stem_of(member.path), member);
    });
    all_.files.push_back(file);
    const TarBytes bytes(file);
    std::map<std::string, RecordLabels> read;
    for (const auto& [stem, member] : labels) {
      if (auto found = read_labels(bytes, member)) read.emplace(stem, std::move(*found));
    }
    labelled_.resize(all_.images.size());
    for (size_t i = first; i < all_.images.size(); ++i) {
      const auto found = read.find(stem_of(all_.images[i].member.path));
      if (found == read.end()) continue;
      static_cast<RecordLabels&>(all_.images[i]) = found->second;
      labelled_[i] = true;
    }
  }

  /// To be called at the end: takes labels from folders if there are no others.
  void finish(const std::string& class_names, const Logger& logger) {
    if (all_.images.empty())
      throw Error(all_.name, " has no images; members are images by their extensions (.jpg, .png)");
    if (std::ranges::count(labelled_, true) == 0) return take_classes(class_names, logger);
    if (!class_names.empty())
      throw Error("class_names is for images in folders of classes, and ", all_.name,
                  " has members with labels; remove it");
    drop_second_images();
    const size_t without =
        static_cast<size_t>(std::ranges::find(labelled_, false) - labelled_.begin());
    if (without < labelled_.size())
      throw Error("'", all_.key(all_.images[without]), "' has no label; add a member '",
                  stem_of(all_.images[without].member.path), ".cls' with a number");
    const TarImage& first = all_.images.front();
    for (const TarImage& image : all_.images) {
      if (image.count() != first.count())
        throw Error("'", all_.key(image), "' has the labels ", text_of(image), ", and '",
                    all_.key(first), "' has ", text_of(first),
                    "; give all images the same number of labels");
    }
    if (logger)
      logger(Severity::info, concat(all_.name, ": ", all_.images.size(), " images with labels"));
  }

 private:
  void add_image(const TarMember& member) {
    if (member.size > kMostImageBytes)
      throw Error("image '", member.path, "' of ", member.size, " bytes is too large");
    TarImage& image = all_.images.emplace_back();
    image.member = member;
    image.file = all_.files.size();
  }

  static std::optional<RecordLabels> read_labels(const TarBytes& bytes, const TarMember& member) {
    const bool is_text = !member.path.ends_with(".cls");
    if (is_text && member.size > kMostLabelBytes) return std::nullopt;
    if (member.size > kMostLabelBytes)
      throw Error("'", member.path, "' has ", member.size,
                  " bytes; it has to hold labels, numbers");
    std::string text;
    bytes.read(member.offset, member.size, text);
    const auto words = words_of(text);
    const bool numbers = !words.empty() && std::ranges::all_of(words, is_number);
    if (is_text && !numbers) return std::nullopt;  // a caption
    if (words.empty()) throw Error("'", member.path, "' is empty; it has to hold labels, numbers");
    return labels_of(words, member.path);
  }

  /// "7.mask.png" belongs to the sample of "7.jpg" and is not its image.
  void drop_second_images() {
    std::vector<TarImage> kept;
    std::vector<bool> labelled;
    for (size_t i = 0; i < all_.images.size(); ++i) {
      const std::string& path = all_.images[i].member.path;
      if (path.find('.', begin_of_name(path)) != path.rfind('.')) continue;
      labelled.push_back(labelled_[i]);
      kept.push_back(std::move(all_.images[i]));
    }
    all_.images = std::move(kept);
    labelled_ = std::move(labelled);
    if (all_.images.empty())
      throw Error(all_.name, " has no image 'NAME.jpg' with a label 'NAME.cls'");
  }

  void take_classes(const std::string& class_names, const Logger& logger) {
    std::set<std::string> classes;
    for (const TarImage& image : all_.images) {
      const std::string name = class_of(image.member.path);
      if (name.empty())
        throw Error("'", all_.key(image), "' has no label: there is no member '",
                    stem_of(image.member.path),
                    ".cls' with a number, and the image is in no folder of a class");
      classes.insert(name);
    }
    const auto labels = class_labels(classes, class_names, all_.name, logger);
    for (TarImage& image : all_.images) image.label = labels.at(class_of(image.member.path));
  }

  TarImages& all_;
  std::vector<bool> labelled_;  // one an image
};

class TarReader final : public RecordReader {
 public:
  explicit TarReader(std::shared_ptr<const TarImages> all) : all_(std::move(all)) {}

  Record read(int64_t index) override {
    const TarImage& image = all_->images.at(static_cast<size_t>(index));
    if (!bytes_ || file_ != image.file) {
      bytes_.reset();
      bytes_ = std::make_unique<TarBytes>(all_->files[image.file]);
      file_ = image.file;
    }
    bytes_->read(image.member.offset, image.member.size, *datum_.mutable_data());
    datum_.set_encoded(true);
    set_labels(image, datum_);
    key_ = all_->key(image);
    if (!datum_.SerializeToString(&value_)) throw Error("'", key_, "' is too large for a record");
    return {key_, value_};
  }
  std::string key(int64_t index) override {
    return all_->key(all_->images.at(static_cast<size_t>(index)));
  }

 private:
  std::shared_ptr<const TarImages> all_;
  std::unique_ptr<TarBytes> bytes_;  // of the tar file read last
  size_t file_ = 0;
  std::string key_, value_;
  Datum datum_;
};

class TarSource final : public RecordSource {
 public:
  explicit TarSource(TarImages all) : all_(std::make_shared<const TarImages>(std::move(all))) {}

  int64_t count() const override { return static_cast<int64_t>(all_->images.size()); }
  std::string name() const override { return all_->name; }
  std::unique_ptr<RecordReader> reader(Access) override {
    return std::make_unique<TarReader>(all_);
  }

 private:
  std::shared_ptr<const TarImages> all_;
};

/// Of a pattern, or of a text file that lists them.
std::vector<std::string> tar_files(const std::string& source) {
  if (source.empty()) throw Error("the data source has no path; name a tar file, or a pattern");
  std::error_code code;
  if (std::filesystem::is_directory(source, code))
    throw Error("data source '", source, "' is a folder; name its tar files, as in '", source,
                source.ends_with('/') ? "" : "/", "*.tar', or set backend: FOLDER");
  const bool there = std::filesystem::is_regular_file(source, code);
  if (!there || kind_of_file(source) != FileKind::text) return files_of(source);
  std::vector<std::string> files;
  read_text_list(source, "the paths of tar files, one a line",
                 [&](std::string_view text, int64_t) { files.emplace_back(text); });
  return files;
}

}  // namespace

std::shared_ptr<RecordSource> open_tar(const std::string& source, const std::string& class_names,
                                       const Logger& logger) {
  TarImages all{.name = "tar '" + source + "'", .files = {}, .images = {}};
  TarLister lister(all);
  for (const std::string& file : tar_files(source)) lister.list(file);
  lister.finish(class_names, logger);
  return std::make_shared<TarSource>(std::move(all));
}

}  // namespace crema
