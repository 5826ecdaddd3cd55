#include "data/images/image_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

using namespace std::string_view_literals;

/// Whether a picture is in it, which another program can convert.
enum class Content : uint8_t { image, pages, video, other };

struct Mark {
  std::string_view bytes;
  size_t offset;
  std::string_view what;
  Content content = Content::image;
};

constexpr Mark kMarks[] = {
    // Of the files that begin with a box "ftyp", its first brand says what they hold.
    {"ftypavif"sv, 4, "an AVIF image"},
    {"ftypavis"sv, 4, "an AVIF image"},
    {"ftyphei"sv, 4, "an HEIC image"},
    {"ftyphev"sv, 4, "an HEIC image"},
    {"ftypmif1"sv, 4, "an HEIF image"},
    {"ftypmsf1"sv, 4, "an HEIF image"},
    {"ftypcrx "sv, 4, "a raw image of a camera (CR3)"},
    {"ftypjxl "sv, 4, "a JPEG XL image"},
    {"ftypqt  "sv, 4, "a video (QuickTime)", Content::video},
    {"ftyp"sv, 4, "a video (MP4)", Content::video},
    {"\0\0\0\x0CJXL \r\n\x87\n"sv, 0, "a JPEG XL image"},
    {"\xFF\x0A"sv, 0, "a JPEG XL image"},
    {"II\xBC\x01"sv, 0, "a JPEG XR image"},
    {"II+\0"sv, 0, "a BigTIFF image"},
    {"MM\0+"sv, 0, "a BigTIFF image"},
    {"8BPS"sv, 0, "a Photoshop image (PSD)"},
    {"gimp xcf"sv, 0, "a GIMP image (XCF)"},
    {"\x76\x2F\x31\x01"sv, 0, "an OpenEXR image"},
    {"#?RADIANCE"sv, 0, "a Radiance HDR image"},
    {"#?RGBE"sv, 0, "a Radiance HDR image"},
    {"DDS "sv, 0, "a DirectDraw image (DDS)"},
    {"\xABKTX "sv, 0, "a KTX texture"},
    {"qoif"sv, 0, "a QOI image"},
    {"FLIF"sv, 0, "a FLIF image"},
    {"BPG\xFB"sv, 0, "a BPG image"},
    {"P7\n"sv, 0, "a PAM image"},
    {"PF\n"sv, 0, "a PFM image"},
    {"Pf\n"sv, 0, "a PFM image"},
    {"\x59\xA6\x6A\x95"sv, 0, "a Sun raster image"},
    {"\x01\xDA"sv, 0, "an SGI image"},
    {"\0\0\x01\0"sv, 0, "a Windows icon (ICO)"},
    {"\0\0\x02\0"sv, 0, "a Windows cursor (CUR)"},
    {"\x0A\x05\x01"sv, 0, "a PCX image"},
    {"DICM"sv, 128, "a DICOM image"},
    {"SIMPLE  ="sv, 0, "a FITS image"},
    {"FUJIFILMCCD-RAW"sv, 0, "a raw image of a camera (RAF)"},
    {"AT&TFORM"sv, 0, "a DjVu document", Content::pages},
    {"%PDF-"sv, 0, "a PDF document", Content::pages},
    {"%!PS"sv, 0, "a PostScript document", Content::pages},
    {"\xC5\xD0\xD3\xC6"sv, 0, "a PostScript document (EPS)", Content::pages},
    {"AVI "sv, 8, "a video (AVI)", Content::video},
    {"\x1A\x45\xDF\xA3"sv, 0, "a video (Matroska or WebM)", Content::video},
    {"OggS"sv, 0, "a video or sound (Ogg)", Content::video},
    {"FLV\x01"sv, 0, "a video (FLV)", Content::video},
    {"\0\0\x01\xBA"sv, 0, "a video (MPEG)", Content::video},
    {"\0\0\x01\xB3"sv, 0, "a video (MPEG)", Content::video},
    {"\x30\x26\xB2\x75"sv, 0, "a video (WMV)", Content::video},
    {"PK\x03\x04"sv, 0, "a zip archive", Content::other},
    {"\x1F\x8B"sv, 0, "a file compressed by gzip", Content::other},
    {"7z\xBC\xAF"sv, 0, "a 7z archive", Content::other},
    {"Rar!"sv, 0, "a RAR archive", Content::other},
    {"\x89HDF"sv, 0, "an HDF5 file", Content::other},
    {"\x93NUMPY"sv, 0, "an array of NumPy", Content::other},
};

/// The element that a text of XML begins with, behind comments and declarations.
std::string_view first_element(std::string_view text) {
  constexpr size_t kFar = 4096;
  text = text.substr(0, kFar);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (;;) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0])) != 0)
      text.remove_prefix(1);
    if (text.starts_with("<!--")) {
      const size_t end = text.find("-->");
      if (end == std::string_view::npos) return {};
      text.remove_prefix(end + 3);
    } else if (text.starts_with("<?") || text.starts_with("<!")) {
      const size_t end = text.find('>');
      if (end == std::string_view::npos) return {};
      // The declaration names the element, if it is all that can be seen.
      if (text.starts_with("<!doctype") || text.starts_with("<!DOCTYPE")) return text.substr(2);
      text.remove_prefix(end + 1);
    } else {
      return text.starts_with('<') ? text.substr(1) : std::string_view();
    }
  }
}

bool is_svg(std::string_view file) {
  std::string_view element = first_element(file);
  const auto begins_with = [&](std::string_view name) {
    return std::ranges::equal(element.substr(0, name.size()), name, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  };
  constexpr std::string_view kDeclared = "doctype ";
  if (begins_with(kDeclared)) element.remove_prefix(kDeclared.size());
  return begins_with("svg");
}

constexpr Mark kSvg{{}, 0, "an SVG image"};

const Mark* find_mark(std::string_view file) {
  const auto* found = std::ranges::find_if(kMarks, [&](const Mark& mark) {
    return file.size() > mark.offset && file.substr(mark.offset).starts_with(mark.bytes);
  });
  if (found != std::end(kMarks)) return found;
  return is_svg(file) ? &kSvg : nullptr;
}

}  // namespace

std::string image_extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  const size_t slash = name.rfind('/');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) return {};
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (extension == "jpeg") return "jpg";
  return extension == "tiff" ? "tif" : extension;
}

bool is_image_name(std::string_view name) {
  constexpr std::array<std::string_view, 9> kKinds = {"jpg", "png", "gif", "bmp", "ppm",
                                                      "pgm", "pnm", "tif", "webp"};
  return std::ranges::count(kKinds, image_extension(name)) > 0;
}

void check_is_image(std::string_view file) {
  if (file.empty()) throw Error("the image file is empty");
  if (!image_type(file).empty()) return;
  const FileKind kind = kind_of(file.substr(0, kFileHeadSize));
  if (const std::string way_out = way_out_of(kind); !way_out.empty())
    throw Error("it is ", describe(kind), ", and no image", way_out, ", or leave it out");
  const Mark* const mark = find_mark(file);
  if (mark == nullptr)
    throw Error("the image cannot be decoded: it begins as none of JPEG, PNG, GIF, BMP, TIFF, ",
                "WebP, JPEG 2000 and PNM; convert it to one of them");
  switch (mark->content) {
    case Content::image:
      throw Error("it is ", mark->what,
                  ", which is not supported; convert it to PNG or JPEG, or leave it out");
    case Content::pages:
      throw Error("it is ", mark->what,
                  ", which is not supported; convert its pages to PNG or JPEG, or leave it out");
    case Content::video:
      throw Error("it is ", mark->what,
                  ", which is not supported; convert its frames to PNG or JPEG, or leave it out");
    case Content::other:
      throw Error("it is ", mark->what, ", and no image; get the image again, or leave it out");
  }
}

}  // namespace crema
