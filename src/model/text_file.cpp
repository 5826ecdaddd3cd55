#include "model/text_file.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include "model/binary_format.hpp"

namespace crema {

void write_text_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, [&](google::protobuf::io::ZeroCopyOutputStream& stream) {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteRaw(text.data(), static_cast<int>(text.size()));
    return !coded.HadError();
  });
}

}  // namespace crema
