#include "data/databases/tar_source.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "data/databases/file_pattern.hpp"
#include "data/databases/libarchive/tar_members.hpp"
#include "data/images/image_name.hpp"
#include "data/records/record_labels.hpp"
#include "data/records/text_list.hpp"
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
  std::vector<std::string> class_names = {};  // by label, where folders are classes

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

/// Kinds of images that are common and that no decoder here reads.
bool is_other_image_name(const std::string& path) {
  constexpr std::array<std::string_view, 8> kKinds = {"jp2",  "jxl", "avif", "heic",
                                                      "heif", "tga", "exr",  "svg"};
  return std::ranges::count(kKinds, image_extension(path)) > 0;
}

/// Counts what is not used, for one warning.
class PassedOver {
 public:
  void add(const std::string& kind, const std::string& example) {
    Kind& counted = kinds_[kind];
    if (counted.count++ == 0) counted.example = example;
  }
  void warn(const std::string& name, const Logger& logger) const {
    if (kinds_.empty() || !logger) return;
    std::string content;
    for (const auto& [kind, counted] : kinds_) {
      content += text(content.empty() ? "" : "; ", kind, ": ", counted.count, ", such as '",
                      counted.example, "'");
    }
    logger(Severity::warning, text(name, ": some members are not used. ", content));
  }

 private:
  struct Kind {
    int64_t count = 0;
    std::string example;
  };
  std::map<std::string, Kind> kinds_;
};

/// Lists tar files, and finds the labels of their images.
class TarLister {
 public:
  explicit TarLister(TarImages& all) : all_(all) {}

  void list(const std::string& path) {
    const size_t first = all_.images.size();
    path_ = path;
    members_.clear();
    image_at_.clear();
    labels_.clear();
    const TarFile file = list_tar(path, [this](const TarMember& member) { take(member); });
    check_holes(first);
    all_.files.push_back(file);
    const TarBytes bytes(file);
    std::map<std::string, RecordLabels> read;
    for (const auto& [stem, member] : labels_) {
      if (auto found = read_labels(bytes, member)) read.emplace(stem, std::move(*found));
    }
    labelled_.resize(all_.images.size());
    std::set<std::string> stems;
    for (size_t i = first; i < all_.images.size(); ++i) {
      stems.insert(stem_of(all_.images[i].member.path));
      const auto found = read.find(stem_of(all_.images[i].member.path));
      if (found == read.end()) continue;
      static_cast<RecordLabels&>(all_.images[i]) = found->second;
      labelled_[i] = true;
    }
    for (const auto& [stem, labels] : read) {
      if (!stems.contains(stem))
        passed_over_.add("labels without an image", text(path, ": ", labels_.at(stem).path));
    }
  }

  /// To be called at the end: takes labels from folders if there are no others.
  void finish(const ClassRule& rule, const Logger& logger) {
    if (std::ranges::count(labelled_, true) > 0) {
      take_labels(rule.file, logger);
      return passed_over_.warn(all_.name, logger);
    }
    passed_over_.warn(all_.name, logger);
    if (all_.images.empty())
      throw Error(all_.name, " has no images; members are images by their extensions (.jpg, .png)");
    take_classes(rule, logger);
  }

 private:
  void take_labels(const std::string& class_names, const Logger& logger) {
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
      logger(Severity::info, text(all_.name, ": ", all_.images.size(), " images with labels"));
  }

  void take(TarMember member) {
    const bool is_image = is_image_name(member.path);
    const std::string stem = stem_of(member.path);
    const std::string kind = member.path.substr(stem.size());
    // cls is for labels only; a txt may be anything.
    const bool is_label = kind == ".cls" || kind == ".txt";
    const std::string key = text(path_, ": ", member.path);
    if (!member.is_symbolic_link) {
      if (!member.hard_link.empty() && !follow(member)) {
        if (!is_image && !is_label) return;
        throw Error("'", key, "' is a hard link to '", member.hard_link,
                    "', which is not in the tar file before it; write the tar file with both");
      }
      members_.insert_or_assign(member.path, member);
    }
    if (is_other_image_name(member.path))
      passed_over_.add("images that cannot be decoded (." + image_extension(member.path) + ")",
                       key);
    if (!is_image && !is_label) return;
    if (member.path[begin_of_name(member.path)] == '.') {
      if (is_image) passed_over_.add("hidden images", key);
    } else if (member.is_symbolic_link) {
      passed_over_.add("symbolic links", key);
    } else if (is_image) {
      add_image(std::move(member));
    } else {
      const auto [found, fresh] = labels_.emplace(stem, member);
      if (!fresh && (kind == ".cls" || found->second.path == member.path)) found->second = member;
    }
  }

  /// Takes the place of a hard link's target. False if there is none.
  bool follow(TarMember& member) const {
    const auto target = members_.find(member.hard_link);
    if (target == members_.end()) return false;
    member.offset = target->second.offset;
    member.size = target->second.size;
    member.has_holes = target->second.has_holes;
    return true;
  }

  void add_image(TarMember member) {
    const auto [found, fresh] = image_at_.emplace(member.path, all_.images.size());
    if (fresh) all_.images.emplace_back().file = all_.files.size();
    all_.images[found->second].member = std::move(member);
  }

  /// Of the members that are used, from image `first` on.
  void check_holes(size_t first) const {
    const auto check = [this](const TarMember& member) {
      if (!member.has_holes) return;
      throw Error("'", member.path, "' in tar file '", path_,
                  "' is stored with holes; write the tar file without --sparse");
    };
    for (size_t i = first; i < all_.images.size(); ++i) {
      check(all_.images[i].member);
      if (all_.images[i].member.size > kMostImageBytes)
        throw Error("image '", all_.images[i].member.path, "' of ", all_.images[i].member.size,
                    " bytes is too large");
    }
    for (const auto& [stem, member] : labels_) check(member);
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
      if (path.find('.', begin_of_name(path)) != path.rfind('.')) {
        passed_over_.add("further images of a sample (two dots)", all_.key(all_.images[i]));
        continue;
      }
      labelled.push_back(labelled_[i]);
      kept.push_back(std::move(all_.images[i]));
    }
    all_.images = std::move(kept);
    labelled_ = std::move(labelled);
    if (all_.images.empty())
      throw Error(all_.name, " has no image 'NAME.jpg' with a label 'NAME.cls'");
  }

  void take_classes(const ClassRule& rule, const Logger& logger) {
    std::set<std::string> classes;
    for (const TarImage& image : all_.images) {
      const std::string name = class_of(image.member.path);
      if (name.empty())
        throw Error("'", all_.key(image), "' has no label: there is no member '",
                    stem_of(image.member.path),
                    ".cls' with a number, and the image is in no folder of a class");
      classes.insert(name);
    }
    all_.class_names = classes_in_order(classes, rule, all_.name, logger);
    const auto labels = labels_by_name(all_.class_names);
    for (TarImage& image : all_.images) image.label = labels.at(class_of(image.member.path));
  }

  TarImages& all_;
  std::vector<bool> labelled_;  // one an image
  PassedOver passed_over_;
  // Of the tar file that is listed.
  std::string path_;
  std::unordered_map<std::string, TarMember> members_;  // by their paths
  std::unordered_map<std::string, size_t> image_at_;    // index of an image by its path
  std::map<std::string, TarMember> labels_;             // by their stems
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
  bool is_files() const override { return true; }
  std::vector<std::string> files() const override {
    std::vector<std::string> paths;
    for (const TarFile& file : all_->files) paths.push_back(file.path);
    return paths;
  }
  std::vector<std::string> class_names() const override { return all_->class_names; }
  std::unique_ptr<RecordReader> reader(ReadOrder) override {
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

std::shared_ptr<RecordSource> open_tar(const std::string& source, const ClassRule& classes,
                                       const Logger& logger) {
  TarImages all{.name = "tar '" + source + "'", .files = {}, .images = {}};
  TarLister lister(all);
  for (const std::string& file : tar_files(source)) lister.list(file);
  lister.finish(classes, logger);
  return std::make_shared<TarSource>(std::move(all));
}

}  // namespace crema
