// Converters: from data sets as they are found to databases of Datum or AnnotatedDatum
// records, LMDB or LevelDB.
//
// The database appears under its name when it is whole, and not before (see database_folder.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "crema/context.hpp"
#include "data/records/convert_report.hpp"

namespace crema {

struct ConvertMnistOptions {
  std::string images;            // IDX file of magic 2051, plain or gzip
  std::string labels;            // IDX file of magic 2049, likewise
  std::string output;            // the database's folder
  std::string backend = "lmdb";  // or "leveldb"
  bool overwrite = false;
  ConvertProgress progress;
};

/// Keys are the image's number in 8 digits; records raw bytes in one channel. Error when a file is
/// missing, damaged or of another kind, when the counts differ, or when the output exists.
ConvertReport convert_mnist(const ConvertMnistOptions& options);

enum class CifarKind : uint8_t { cifar10, cifar100 };

struct ConvertCifarOptions {
  CifarKind kind = CifarKind::cifar10;
  std::string input;   // folder with the binary version's files, each plain or gzip
  std::string output;  // folder for the databases, which exists
  std::string backend = "lmdb";
  bool coarse = false;  // CIFAR-100: labels are the 20 superclasses instead of the 100 classes
  bool overwrite = false;
  ConvertProgress progress;
};

struct ConvertCifarReport {
  ConvertReport train, test;
  std::string train_path, test_path;
};

/// Writes OUTPUT/cifar10_train_lmdb and OUTPUT/cifar10_test_lmdb (cifar100_... for CIFAR-100). Keys
/// are the image's number in 5 digits; records raw bytes in the channels red, green, blue. The
/// databases tell the names of the classes where the set's file of them (batches.meta.txt) is
/// there. Both databases appear when both are whole. Error when a file is missing, cut off, longer
/// than its set or damaged, when a label is out of range, or when an output exists.
ConvertCifarReport convert_cifar(const ConvertCifarOptions& options);

struct ConvertImagesetOptions {
  std::string root;  // put before every file name of the list
  /// Lines "file label..."; see image_list.hpp. "": `root` has a folder of images for each class,
  /// as list_image_folder() reads them.
  std::string list;
  /// A file with the names of the classes in the order of their labels (class_list.hpp). The
  /// database tells them (class_file.hpp); of folders without a file, their names.
  std::string class_names;
  std::string output;            // the database's folder
  std::string backend = "lmdb";  // or "leveldb"
  bool gray = false;             // one channel instead of three (blue, green, red)
  bool shuffle = false;          // the lines, by `seed`
  uint64_t seed = 1701;
  int64_t resize_height = 0, resize_width = 0;  // both or neither
  bool check_size = false;                      // all images must have one size
  bool encoded = false;                         // keep images compressed
  std::string encode_type;  // "jpg", "png"...: implies encoded; else as the file
  bool keep_depth = false;  // images of more than 8 bits a channel become records of floats
  /// How images are resized, exactly: "linear", "area", ...; see interpolation_named(). "":
  /// averages where they shrink, else bilinear.
  std::string interp;
  bool check_only = false;  // decode everything, write nothing
  bool skip_bad = false;    // leave out and count what cannot be read
  bool overwrite = false;
  Logger logger;  // receives what is told of folders
  ConvertProgress progress;
};

/// Keys are the line's number (after shuffling) in 8 digits, '_' and the file name. Images are
/// decoded on all OpenMP threads and written in order, upright as their EXIF says; files that are
/// kept compressed keep what they say, and are turned when they are decoded. Error, naming line and
/// file, at the first bad image, unless check_only or skip_bad is set; and always for a bad list,
/// and for a label that has no line in class_names.
ConvertReport convert_imageset(const ConvertImagesetOptions& options);

struct ConvertAnnotationsOptions {
  /// Put before every file name of the list. A name that is an absolute path needs none, and is
  /// taken as it is where `root` has no such file.
  std::string root;
  /// Lines "image boxes" (pair_list.hpp), or a COCO data set, instances_*.json. With yolo, a line
  /// may be an image alone, whose boxes are where YOLO has them; or a folder of images, or one with
  /// the folder "images": the images below it, in the order of their paths.
  std::string list;
  std::string output;            // the database's folder
  std::string backend = "lmdb";  // or "leveldb"
  /// "detection", or "classification": lines "image label". "": as the first line of the list says.
  std::string annotation_type;
  std::string label_type;      // "xml", "json", "txt" or "yolo": of the files of boxes; "": xml
  std::string label_map_file;  // LabelMap in text: labels of the names of classes
  std::string class_names;     // yolo: file with the names of the classes (class_list.hpp)
  bool polygons = false;       // yolo: take polygons for the boxes around them
  /// What DetectionOutput needs to write files of detections. Written if they are not empty, when
  /// the database is complete. name_size_file: lines "name height width" of the images in the order
  /// of the records, with the sizes of their files; a name is that of the file without ending, or
  /// of a COCO data set the image's id. labels_file: a LabelMap of a COCO data set, whose names are
  /// the ids of the categories, or of class_names.
  std::string name_size_file, labels_file;
  bool gray = false;
  bool shuffle = false;  // the list, by `seed`
  uint64_t seed = 1701;
  int64_t resize_height = 0, resize_width = 0;  // both or neither
  int64_t min_dim = 0, max_dim = 0;             // bounds of the sides, the aspect ratio kept
  bool check_size = false;
  bool encoded = false;
  std::string encode_type;
  bool keep_depth = false;
  std::string interp;
  bool check_only = false;
  bool skip_bad = false;
  bool overwrite = false;
  ConvertProgress progress;
};

/// A database of AnnotatedDatum records: images with boxes. Keys, threads and errors are those of
/// convert_imageset(). Boxes are clipped to their images, those without area left out, and images
/// that are alone in their line, or of a folder, and have no file of boxes have none: warnings
/// count them. Error for a box with its edges in the wrong order or outside of its image, for an
/// unknown class, for a file of boxes that the list names and that cannot be read, if none of
/// several images has one, and for settings that a data set in one file does not have.
ConvertReport convert_annotations(const ConvertAnnotationsOptions& options);

}  // namespace crema
