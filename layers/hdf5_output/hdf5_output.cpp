// HDF5Output: appends its bottoms to an HDF5 file. See README.md.
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/path_advice.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"
#include "model/hdf5_file.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class Hdf5OutputLayer : public Layer {
 public:
  explicit Hdf5OutputLayer(const LayerInit& init) : Layer(init) {
    if (file_name().empty()) throw Error("hdf5_output_param has no file_name; name a file");
  }
  ~Hdf5OutputLayer() override {
    if (!writer_) return;
    if (std::uncaught_exceptions() > exceptions_) {
      context().log(Severity::warning, text("layer '", name(), "': the run failed, so '",
                                            file_name(), "' is not written"));
      return;
    }
    try {
      writer_->finish();
    } catch (const std::exception& error) {
      context().log(Severity::error, text("layer '", name(), "': ", error.what()));
    }
  }

  Arity arity() const override { return {2, 2, 0, 0}; }
  bool can_propagate(int) const override { return false; }
  std::string changes() const override { return "the file that it writes"; }

  void setup(Blobs, Blobs) override {
    const std::filesystem::path path = file_name(), folder = path.parent_path();
    if (std::filesystem::is_directory(path))
      throw Error("file_name '", path.string(), "' is a folder; name a file in it");
    if (!folder.empty() && !std::filesystem::is_directory(folder))
      throw Error("file_name '", path.string(), "': there is no folder '", folder.string(), "'",
                  path_advice(path.string(), "create it first"))
          .about(folder.string());
  }

  void reshape(Blobs bottom, Blobs) override {
    const Shape &data = bottom[0]->shape(), &label = bottom[1]->shape();
    if (data.rank() == 0 || label.rank() == 0 || data[0] != label[0])
      throw Error("HDF5Output writes as many rows of data as of labels, and its bottoms are ",
                  data.str(), " and ", label.str());
  }

  void forward_cpu(Blobs bottom, Blobs) override {
    if (failed_)
      throw Error("an earlier pass could not write its rows, so '", file_name(),
                  "' would lack them; build the net again");
    try {
      if (!writer_) begin();
      writer_->append("data", bottom[0]->data);
      writer_->append("label", bottom[1]->data);
    } catch (...) {
      failed_ = true;  // one array may have more rows than the other
      writer_.reset();
      throw;
    }
  }

 private:
  void begin() {
    writer_.emplace(file_name());
    if (std::filesystem::exists(file_name()))
      context().log(Severity::warning,
                    text("layer '", name(), "': '", file_name(),
                         "' exists and will be replaced by the rows from this pass on; move it "
                         "away before the net is destroyed to keep its rows"));
  }

  const std::string& file_name() const { return param().hdf5_output_param().file_name(); }

  std::optional<Hdf5Writer> writer_;  // from the first forward on
  bool failed_ = false;
  int exceptions_ = std::uncaught_exceptions();  // when the layer was made
};

}  // namespace

void register_hdf5_output(Registry& registry) { registry.add<Hdf5OutputLayer>("HDF5Output"); }

}  // namespace crema
