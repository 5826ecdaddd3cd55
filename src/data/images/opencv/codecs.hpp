// OpenCV's decoders and encoders of image files, loaded when the first file needs them.
//
// The library of the codecs stands on some hundred others (of maps, databases and mail among them),
// and to load them takes longer than a net needs for its first image. JPEG and PNG files are mostly
// read without it.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace crema {

/// As cv::imdecode() and cv::imencode(). Error if the library cannot be loaded.
cv::Mat decode_by_opencv(const cv::Mat& file, int flags);
bool encode_by_opencv(const std::string& extension, const cv::Mat& image,
                      std::vector<uint8_t>& file, const std::vector<int>& settings = {});

}  // namespace crema
