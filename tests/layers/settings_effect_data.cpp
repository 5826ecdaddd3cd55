// The data that sources read in settings_effect_test.cpp.
#include <cmath>
#include <memory>

#include "crema/memory_data.hpp"
#include "crema/random.hpp"
#include "model/binary_format.hpp"
#include "proto/blob.pb.h"
#include "settings_effect.hpp"
#include "support/annotated.hpp"
#include "support/hdf5_arrays.hpp"

namespace crema::test {
namespace {

constexpr int kHeight = 12, kWidth = 16;

/// Smooth colours with some noise, no two images alike.
std::string pixels(int image, int height, int width) {
  Random random(7, static_cast<uint64_t>(image));
  std::string all;
  for (int h = 0; h < height; ++h) {
    for (int w = 0; w < width; ++w) {
      for (int c = 0; c < 3; ++c) {
        const double wave = 90 + 60 * std::sin(0.5 * h + 0.3 * image + c) * std::cos(0.4 * w);
        all += static_cast<char>(static_cast<int>(wave + 30 * random.uniform(0, 1)));
      }
    }
  }
  return all;
}

/// (H, W, C) as (C, H, W).
std::string planes(const std::string& pixels) {
  std::string all;
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = c; i < pixels.size(); i += 3) all += pixels[i];
  return all;
}

Datum datum_of(int image) {
  Datum datum;
  datum.set_channels(3);
  datum.set_height(kHeight);
  datum.set_width(kWidth);
  datum.set_label(image % 3);
  datum.set_data(planes(pixels(image, kHeight, kWidth)));
  return datum;
}

std::string key_of(int i) { return text("0000000", i); }

void write_mean(const std::string& path, int channels, int height, int width, int least = 40) {
  BlobProto mean;
  for (const int dim : {channels, height, width}) mean.mutable_shape()->add_dim(dim);
  for (int i = 0; i < channels * height * width; ++i)
    mean.add_data(static_cast<float>(least + i % 11));
  write_binary_proto_atomically(path, mean);
}

void write_data(const ScratchFolder& folder) {
  Records plain, encoded_records, other;
  std::vector<AnnotatedDatum> boxes;
  std::string list, dense, windows;
  for (int i = 0; i < 6; ++i) {
    const std::string file = ppm(kHeight, kWidth, pixels(i, kHeight, kWidth));
    plain.emplace_back(key_of(i), datum_of(i).SerializeAsString());
    Datum png;
    png.set_label(i % 3);
    png.set_encoded(true);
    png.set_data(encoded(file, ".png"));
    encoded_records.emplace_back(key_of(i), png.SerializeAsString());
    AnnotatedDatum annotated;
    annotated.set_type(AnnotatedDatum::BBOX);
    *annotated.mutable_datum() = datum_of(i);
    annotated.mutable_datum()->set_label(-1);
    const std::vector<LabeledBox> two = {
        {.label = 1, .box = {0.1, 0.2, 0.5, 0.6}},
        {.label = 2, .difficult = i % 2 == 0, .box = {0.4, 0.45, 0.95, 0.9}}};
    set_boxes(two, annotated);
    boxes.push_back(annotated);
    const std::string name = text(i, ".ppm");
    folder.write("images/" + name, file);
    folder.write(text("classes/", i % 2 == 0 ? "cat" : "dog", "/", name), file);
    std::string map;
    for (int k = 0; k < kHeight * kWidth; ++k) map += static_cast<char>(2 * ((k / 5 + i) % 4));
    folder.write(text("images/", i, "_map.pgm"), pgm(kHeight, kWidth, map));
    list += text(name, " ", i % 3, "\n");
    dense += text(name, " ", i, "_map.pgm\n");
    windows += text("# ", i, "\n", name, "\n3\n", kHeight, "\n", kWidth, "\n4\n",
                    "1 0.9 2 1 9 8\n2 0.6 4 3 13 10\n0 0.1 0 0 4 4\n0 0.4 8 2 15 11\n");
  }
  write_database(folder / "db", plain);
  write_database(folder / "encoded", encoded_records);
  write_database(folder / "boxes", annotated_records(boxes));
  Records bad = encoded_records;
  Datum broken;
  broken.set_encoded(true);
  broken.set_data("no image");
  bad[1].second = broken.SerializeAsString();
  write_database(folder / "bad", bad);
  // Other data of each kind, and gray images.
  Records half(plain.begin(), plain.begin() + 3), gray;
  write_database(folder / "other", half);
  const std::vector<AnnotatedDatum> three(boxes.begin(), boxes.begin() + 3);
  write_database(folder / "other_boxes", annotated_records(three));
  std::vector<AnnotatedDatum> gray_boxes = boxes;
  for (int i = 0; i < 6; ++i) {
    const std::string map = read_file(folder / text("images/", i, "_map.pgm"));
    Datum png;
    png.set_label(i % 3);
    png.set_encoded(true);
    png.set_data(encoded(map, ".png"));
    gray.emplace_back(key_of(i), png.SerializeAsString());
    png.set_label(-1);
    *gray_boxes[static_cast<size_t>(i)].mutable_datum() = png;
    folder.write(text("other_images/", i, ".ppm"),
                 ppm(kHeight, kWidth, pixels(i + 20, kHeight, kWidth)));
    folder.write(text("other_images/", i, "_map.pgm"), map);
  }
  std::vector<AnnotatedDatum> without_type = boxes;
  for (AnnotatedDatum& annotated : without_type) annotated.clear_type();
  write_database(folder / "no_type", annotated_records(without_type));
  Records bad_boxes = annotated_records(boxes);
  bad_boxes[1].second = datum_of(1).SerializeAsString();
  write_database(folder / "bad_boxes", bad_boxes);
  write_database(folder / "gray", gray);
  write_database(folder / "gray_boxes", annotated_records(gray_boxes));
  folder.write("other_list.txt", list.substr(list.find('\n') + 1));
  folder.write("other_dense.txt", dense.substr(dense.find('\n') + 1));
  folder.write("other_windows.txt", windows.substr(0, windows.find("# 3")));
  folder.write("list.txt", list);
  folder.write("bad_list.txt", "0.ppm 0\nmissing.ppm 1\n1.ppm 1\n2.ppm 2\n3.ppm 0\n");
  folder.write("dense.txt", dense);
  folder.write("windows.txt", windows);
  folder.write("names.txt", "dog\ncat\n");
  folder.write("labels.prototxt",
               "item { name: 'none' label: 0 display_name: 'none' } "
               "item { name: 'one' label: 1 display_name: 'one' } "
               "item { name: 'two' label: 2 display_name: 'two' }\n");
  folder.write("one_label.prototxt",
               "item { name: 'none' label: 0 } item { name: 'one' label: 1 }\n");
  folder.write("other_labels.prototxt",
               "item { name: 'none' label: 0 display_name: 'none' } "
               "item { name: 'first' label: 1 display_name: 'first' } "
               "item { name: 'two' label: 2 display_name: 'two' }\n");
  folder.write("sizes.txt", "first 120 160\nsecond 240 200\n");
  folder.write("other_sizes.txt", "first 100 160\nsecond 240 200\n");
  folder.write("three_sizes.txt", "first 3 4\nsecond 5 3\nthird 4 4\n");
  write_mean(folder / "mean.binaryproto", 3, kHeight, kWidth);
  write_mean(folder / "matrix.binaryproto", 1, 6, 6);
  write_mean(folder / "other_matrix.binaryproto", 1, 6, 6, 7);
  for (const int part : {0, 1}) {
    const std::string file = folder / text(part, ".h5");
    std::vector<double> data, labels;
    for (int row = 0; row < 4; ++row) {
      data.insert(data.end(), {part * 4.0 + row, part * 4.0 + row + 0.5});
      labels.push_back(part * 4 + row);
    }
    add_hdf5(file, "t0", Hdf5Kind::f32, {4, 2}, data);
    add_hdf5(file, "t1", Hdf5Kind::f32, {4}, labels);
  }
  folder.write("hdf5.txt", folder / "0.h5" + "\n" + folder / "1.h5" + "\n");
  folder.write("half.txt", folder / "1.h5" + "\n");
}

const ScratchFolder& data_folder() {
  static const auto folder = [] {
    auto made = std::make_unique<ScratchFolder>();
    write_data(*made);
    return made;
  }();
  return *folder;
}

}  // namespace

const std::filesystem::path& out_folder() {
  static const ScratchFolder folder;
  return folder.path();
}

std::string with_folders(std::string text) {
  const auto replace = [&](const std::string& mark, const auto& folder) {
    for (size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at, mark.size(), folder());
  };
  replace("$DATA", [] { return data_folder().path().string(); });
  replace("$OUT", [] { return out_folder().string(); });
  return text;
}

void give_memory_data(Layer& layer, bool gray) {
  std::vector<std::string> records;
  for (int i = 0; i < 6; ++i) {
    Datum datum = datum_of(i);
    if (gray) {
      datum.clear_data();
      datum.set_encoded(true);
      datum.set_data(
          encoded(pgm(kHeight, kWidth, std::string(kHeight * kWidth, char(30 * i))), ".png"));
    }
    records.push_back(datum.SerializeAsString());
  }
  MemoryData::of(layer).set_records(std::move(records));
}

}  // namespace crema::test
