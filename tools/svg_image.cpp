#include "tools/svg_image.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "core/xml.hpp"
#include "crema/error.hpp"

namespace crema::tools {
namespace {

constexpr double kPixels = 2;           // a unit of the SVG
constexpr double kLongestSide = 32767;  // of cairo's images
constexpr double kMostPixels = 40e6;    // 160 MB
constexpr double kPoints = 0.75;        // of a page, a unit

// What the interfaces of these libraries say of what is used here. Both keep them from release to
// release: the number in the name of the library says so.
struct Handle;    // RsvgHandle
struct Surface;   // cairo_surface_t
struct Canvas;    // cairo_t
struct Refusal {  // GError
  uint32_t domain;
  int code;
  char* message;
};
struct Dimensions {  // RsvgDimensionData
  int width, height;
  double em, ex;
};
struct Rectangle {  // RsvgRectangle
  double x, y, width, height;
};
using WriteFunction = int (*)(void* closure, const unsigned char* data, unsigned length);

struct Libraries {
  Handle* (*read)(const uint8_t* data, size_t length, Refusal** error) = nullptr;
  void (*dimensions)(Handle*, Dimensions*) = nullptr;
  int (*render)(Handle*, Canvas*, const Rectangle* viewport, Refusal** error) = nullptr;
  int (*geometry)(Handle*, const char* id, const Rectangle* viewport, Rectangle* ink,
                  Rectangle* logical, Refusal** error) = nullptr;
  void (*release)(void* object) = nullptr;
  void (*release_error)(Refusal*) = nullptr;
  Surface* (*image)(int format, int width, int height) = nullptr;
  Surface* (*page)(WriteFunction, void* closure, double width, double height) = nullptr;
  int (*status)(Surface*) = nullptr;
  const char* (*status_text)(int) = nullptr;
  int (*write_png)(Surface*, WriteFunction, void* closure) = nullptr;
  void (*finish)(Surface*) = nullptr;
  void (*destroy_surface)(Surface*) = nullptr;
  Canvas* (*draw_on)(Surface*) = nullptr;
  void (*scale)(Canvas*, double x, double y) = nullptr;
  void (*destroy_canvas)(Canvas*) = nullptr;
  std::string missing;  // why they cannot be used

  Libraries() {
    open("libgobject-2.0.so.0");
    take(release, "g_object_unref");
    open("libglib-2.0.so.0");
    take(release_error, "g_error_free");
    open("libcairo.so.2");
    take(image, "cairo_image_surface_create");
    take(page, "cairo_pdf_surface_create_for_stream");
    take(status, "cairo_surface_status");
    take(status_text, "cairo_status_to_string");
    take(write_png, "cairo_surface_write_to_png_stream");
    take(finish, "cairo_surface_finish");
    take(destroy_surface, "cairo_surface_destroy");
    take(draw_on, "cairo_create");
    take(scale, "cairo_scale");
    take(destroy_canvas, "cairo_destroy");
    open("librsvg-2.so.2");
    take(read, "rsvg_handle_new_from_data");
    take(dimensions, "rsvg_handle_get_dimensions");
    take(render, "rsvg_handle_render_document");
    take(geometry, "rsvg_handle_get_geometry_for_layer");
  }

 private:
  void open(const char* name) {
    name_ = name;
    opened_ = missing.empty() ? ::dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (opened_ == nullptr && missing.empty()) missing = ::dlerror();
  }
  template <class Function>
  void take(Function& function, const char* symbol) {
    if (opened_ == nullptr) return;
    function = reinterpret_cast<Function>(::dlsym(opened_, symbol));
    if (function == nullptr && missing.empty()) missing = text(name_, " has no ", symbol);
  }

  const char* name_ = "";
  void* opened_ = nullptr;  // never closed: they keep memory of their own
};

const Libraries& libraries() {
  static const Libraries loaded;
  return loaded;
}

const Libraries& need_libraries() {
  if (!libraries().missing.empty())
    throw Error("cannot use librsvg (", libraries().missing, "); install the package librsvg2-2");
  return libraries();
}

[[noreturn]] void refuse(Refusal* error) {
  const std::string why = error != nullptr ? error->message : "no reason";
  if (error != nullptr) libraries().release_error(error);
  throw Error("librsvg refuses the drawing: ", why);
}

struct Release {
  void operator()(Handle* handle) const { libraries().release(handle); }
  void operator()(Surface* surface) const { libraries().destroy_surface(surface); }
  void operator()(Canvas* canvas) const { libraries().destroy_canvas(canvas); }
};
using OwnHandle = std::unique_ptr<Handle, Release>;

OwnHandle read_svg(const std::string& svg) {
  Refusal* error = nullptr;
  OwnHandle handle(
      need_libraries().read(reinterpret_cast<const uint8_t*>(svg.data()), svg.size(), &error));
  if (!handle) refuse(error);
  return handle;
}

int append(void* closure, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return 0;
}

void check(int status) {
  if (status != 0)
    throw Error("cairo could not draw the picture: ", libraries().status_text(status));
}

}  // namespace

std::string why_no_svg_images() { return libraries().missing; }

std::string svg_image(const std::string& svg, SvgImage kind) {
  const OwnHandle handle = read_svg(svg);
  const Libraries& use = libraries();
  Dimensions size{};
  use.dimensions(handle.get(), &size);
  const double width = size.width, height = size.height;
  double scale = kPoints;
  if (kind == SvgImage::png)
    scale = std::min({kPixels, kLongestSide / std::max(width, height),
                      std::sqrt(kMostPixels / (width * height))});
  // Sides that are whole in the SVG stay whole; less than one pixel is none.
  const auto side = [&](double units) {
    return std::max(1, static_cast<int>(std::floor(units * scale + 1e-6)));
  };
  std::string bytes;
  constexpr int kArgb = 0;  // CAIRO_FORMAT_ARGB32
  const std::unique_ptr<Surface, Release> surface(
      kind == SvgImage::png ? use.image(kArgb, side(width), side(height))
                            : use.page(append, &bytes, width * scale, height * scale));
  check(use.status(surface.get()));
  {
    const std::unique_ptr<Canvas, Release> canvas(use.draw_on(surface.get()));
    use.scale(canvas.get(), scale, scale);
    const Rectangle viewport{0, 0, width, height};
    Refusal* error = nullptr;
    if (use.render(handle.get(), canvas.get(), &viewport, &error) == 0) refuse(error);
  }
  if (kind == SvgImage::png) check(use.write_png(surface.get(), append, &bytes));
  use.finish(surface.get());
  check(use.status(surface.get()));
  return bytes;
}

double svg_text_width(const std::string& content, const std::string& font_family) {
  const OwnHandle handle = read_svg(text(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="10000" height="200"><text id="t" x="0")",
      R"( y="150" font-size="100" font-family=")", xml_escaped(font_family), "\">",
      xml_escaped(content), "</text></svg>"));
  const Rectangle viewport{0, 0, 10000, 200};
  Rectangle ink{}, logical{};
  Refusal* error = nullptr;
  if (libraries().geometry(handle.get(), "#t", &viewport, &ink, &logical, &error) == 0)
    refuse(error);
  return std::max(ink.width, logical.width);
}

}  // namespace crema::tools
