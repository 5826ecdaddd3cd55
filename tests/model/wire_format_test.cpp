// Compares our messages with the published ones, row by row. The rows (facts of the published
// format) stand in wire_format_bvlc.tsv beside this file: message, field, number, label, type,
// default, options; an enum's values have the label "enum".
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

struct Row {
  std::string message, field, number, label, type, default_value, options;
};

std::vector<Row> published_rows() {
  std::ifstream file(std::string(CREMA_SOURCE_DIR) + "/tests/model/wire_format_bvlc.tsv");
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    Row row;
    for (std::string* cell : {&row.message, &row.field, &row.number, &row.label, &row.type,
                              &row.default_value, &row.options}) {
      std::getline(cells, *cell, '\t');
    }
    rows.push_back(row);
  }
  return rows;
}

const DescriptorPool& pool() { return *NetParameter::descriptor()->file()->pool(); }

// The one type that has another name here. No file holds names of types, only of fields and values.
constexpr char kPublishedPhase[] = "Phase";
constexpr char kOurPhase[] = "NetPhase";

std::string our_name(const std::string& published) {
  return "crema." + (published == kPublishedPhase ? kOurPhase : published);
}

// The name of a message or an enum as the rows write it, without package.
std::string published_name(const std::string& full_name) {
  const std::string name = full_name.substr(std::string("crema.").size());
  return name == kOurPhase ? kPublishedPhase : name;
}

std::string type_name(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return published_name(field.message_type()->full_name());
  if (field.enum_type() != nullptr) return published_name(field.enum_type()->full_name());
  return field.type_name();
}

std::string label_name(const FieldDescriptor& field) {
  if (field.is_repeated()) return "repeated";
  return field.is_required() ? "required" : "optional";
}

void expect_default(const FieldDescriptor& field, const std::string& expected) {
  EXPECT_EQ(field.has_default_value(), !expected.empty());
  if (expected.empty()) return;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      EXPECT_EQ(field.default_value_int32(), std::stol(expected));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      EXPECT_EQ(field.default_value_int64(), std::stoll(expected));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      EXPECT_EQ(field.default_value_uint32(), std::stoul(expected));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      EXPECT_EQ(field.default_value_float(), std::stof(expected));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      EXPECT_EQ(field.default_value_bool(), expected == "true");
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      EXPECT_EQ(field.default_value_string(), expected);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      EXPECT_EQ(field.default_value_enum()->name(), expected);
      break;
    default:
      ADD_FAILURE() << "no published default has this type: " << field.cpp_type_name();
  }
}

TEST(WireFormatTest, EveryPublishedRowMatches) {
  const std::vector<Row> rows = published_rows();
  ASSERT_EQ(rows.size(), 534u);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message + "." + row.field);
    if (row.label == "enum") {
      const EnumDescriptor* type = pool().FindEnumTypeByName(our_name(row.message));
      ASSERT_NE(type, nullptr);
      const EnumValueDescriptor* value = type->FindValueByName(row.field);
      ASSERT_NE(value, nullptr);
      EXPECT_EQ(value->number(), std::stoi(row.number));
      continue;
    }
    const Descriptor* message = pool().FindMessageTypeByName(our_name(row.message));
    ASSERT_NE(message, nullptr);
    const FieldDescriptor* field = message->FindFieldByName(row.field);
    ASSERT_NE(field, nullptr);
    EXPECT_EQ(field->number(), std::stoi(row.number));
    EXPECT_EQ(label_name(*field), row.label);
    EXPECT_EQ(type_name(*field), row.type);
    EXPECT_EQ(field->is_packed(), row.options == "packed");
    expect_default(*field, row.default_value);
  }
}

// An old field number that some dialect gives another meaning may not come back in a message of
// ours: beyond the published fields only the forks' own numbers and those from 10000 are taken.
TEST(WireFormatTest, NoFieldTakesThePublishedNumberOfAnother) {
  std::map<std::string, std::map<int, std::string>> published;
  for (const Row& row : published_rows()) {
    if (row.label != "enum") published[row.message][std::stoi(row.number)] = row.field;
  }
  for (const auto& [name, fields] : published) {
    const Descriptor* message = pool().FindMessageTypeByName(our_name(name));
    ASSERT_NE(message, nullptr) << name;
    for (int i = 0; i < message->field_count(); ++i) {
      const FieldDescriptor& field = *message->field(i);
      const auto found = fields.find(field.number());
      EXPECT_TRUE(found == fields.end() || found->second == field.name())
          << name << "." << field.name() << " has the number of " << found->second;
    }
  }
}

TEST(WireFormatTest, CremasOwnFieldsStandWhereTheyWereFirstWritten) {
  const std::map<std::string, int> own = {{"SolverState.data_cursor", 10000},
                                          {"SolverState.seed", 10001},
                                          {"SolverState.tuning", 10002},
                                          {"DataParameter.shuffle", 10000},
                                          {"DataParameter.lock", 10001},
                                          {"DataParameter.threads", 10002},
                                          {"LayerParameter.engine", 10000},
                                          {"DataCursor.layer", 1},
                                          {"DataCursor.epoch", 2},
                                          {"DataCursor.position", 3},
                                          {"TuningRecord.problem", 1},
                                          {"TuningRecord.choice", 2}};
  for (const auto& [name, number] : own) {
    const FieldDescriptor* field = pool().FindFieldByName("crema." + name);
    ASSERT_NE(field, nullptr) << name;
    EXPECT_EQ(field->number(), number) << name;
  }
}

// A snapshot of ours, read by a program that knows only the published fields, is still a snapshot:
// what it does not know rides along as unknown fields and comes back unharmed.
TEST(WireFormatTest, OwnFieldsSurviveAReaderThatDoesNotKnowThem) {
  SolverState state;
  state.set_iter(7);
  state.set_seed(42);
  DataCursor* cursor = state.add_data_cursor();
  cursor->set_layer("data");
  cursor->set_epoch(3);
  cursor->set_position(1u << 20);

  // NetState stands for that reader: it knows field 1 as another enum, and nothing of the rest.
  NetState stranger;
  ASSERT_TRUE(stranger.ParseFromString(state.SerializeAsString()));
  SolverState back;
  ASSERT_TRUE(back.ParseFromString(stranger.SerializeAsString()));
  EXPECT_EQ(back.seed(), 42u);
  ASSERT_EQ(back.data_cursor_size(), 1);
  EXPECT_EQ(back.data_cursor(0).position(), 1u << 20);
}

}  // namespace
}  // namespace crema
