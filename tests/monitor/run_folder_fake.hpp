// A run's folder made by hand, and what its pages are checked with.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/utf8.hpp"
#include "monitor/report/run_files.hpp"
#include "monitor/run_folder.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {

class FakeRun {
 public:
  explicit FakeRun(const std::string& name = "lenet-1") {
    info.set_name(name);
    info.set_net("LeNet");
    info.set_max_iterations(100);
    info.set_started(1.75e9);
    info.set_device("CPU");
    info.set_threads(2);
  }

  RunInfo info;
  std::string metrics, histograms;

  /// Appends a line to metrics.jsonl.
  void add(const RunRecord& record) { metrics += json_line(record) + "\n"; }
  void add_display(int iteration, double loss) {
    RunRecord record;
    record.set_kind(RunRecord::TRAIN);
    record.set_iteration(iteration);
    record.set_loss(loss);
    record.set_rate(0.01);
    record.set_time(iteration * 0.5);
    record.set_epoch(iteration / 10.0);
    record.set_images_per_second(1000 + iteration);
    record.set_data_wait(0.25);
    record.set_gradient_norm(2);
    add(record);
  }
  RunRecord& test(int iteration, double accuracy, double loss, bool is_best = false) {
    test_ = RunRecord();
    test_.set_kind(RunRecord::TEST);
    test_.set_iteration(iteration);
    test_.set_net(0);
    test_.set_test_loss(loss);
    test_.set_is_best(is_best);
    (*test_.mutable_outputs())["accuracy"] = accuracy;
    return test_;
  }
  void add_test(int iteration, double accuracy, double loss, bool is_best = false) {
    add(test(iteration, accuracy, loss, is_best));
  }
  void add_event(RunRecord::Kind kind, int iteration, const std::string& words = "") {
    RunRecord record;
    record.set_kind(kind);
    record.set_iteration(iteration);
    if (!words.empty()) record.set_text(words);
    if (kind == RunRecord::END) record.set_reason(RunRecord::FINISHED);
    add(record);
  }
  void set(const std::string& name, const std::string& value) {
    RunInfo::Setting& setting = *info.add_settings();
    setting.set_name(name);
    setting.set_value(value);
  }

  /// Writes the files. Returns the folder.
  std::string folder() {
    folder_.write("run.json", json_line(info) + "\n");
    folder_.write("metrics.jsonl", metrics);
    if (!histograms.empty()) folder_.write("histograms.jsonl", histograms);
    return folder_.path("");
  }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  RunFiles read() { return read_run(folder()); }

 private:
  TempFolder folder_;
  RunRecord test_;
};

/// Fails unless the page is well-formed XML in UTF-8: elements nest, attributes are in quotes and
/// come once, entities are those of XML. Returns the texts outside of elements, joined.
inline std::string expect_well_formed(std::string_view page) {
  std::vector<std::string> open;
  std::string words;
  for (size_t at = 0; at < page.size();) {
    const size_t bytes = utf8_length(page.substr(at));
    if (bytes == 0) {
      ADD_FAILURE() << "no UTF-8 at byte " << at;
      return words;
    }
    at += bytes;
  }
  const auto expect_entities = [](std::string_view part) {
    for (size_t at = 0; (at = part.find('&', at)) != std::string_view::npos; ++at) {
      const std::string_view name = part.substr(at, part.find(';', at) + 1 - at);
      EXPECT_TRUE(name == "&amp;" || name == "&lt;" || name == "&gt;" || name == "&quot;" ||
                  name.starts_with("&#"))
          << part.substr(at, 40);
    }
  };
  size_t at = 0;
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  at = 15;
  while (at < page.size()) {
    const size_t begin = page.find('<', at);
    const std::string_view between = page.substr(at, std::min(begin, page.size()) - at);
    expect_entities(between);
    words += between;
    if (begin == std::string_view::npos) break;
    if (page.substr(begin).starts_with("<![CDATA[")) {
      at = page.find("]]>", begin) + 3;
      continue;
    }
    // Up to the end of the element's tag; '>' may stand in quotes.
    size_t end = begin + 1;
    char quote = 0;
    for (; end < page.size() && (quote != 0 || page[end] != '>'); ++end) {
      if (quote == 0 && page[end] == '"') {
        quote = '"';
      } else if (page[end] == quote) {
        quote = 0;
      }
      if (page[end] == '<') ADD_FAILURE() << "< within " << page.substr(begin, 80);
    }
    std::string_view tag = page.substr(begin + 1, end - begin - 1);
    at = end + 1;
    expect_entities(tag);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) {
        ADD_FAILURE() << "</" << tag.substr(1) << "> closes <" << (open.empty() ? "" : open.back())
                      << ">, before byte " << at;
        return words;
      }
      open.pop_back();
      continue;
    }
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const size_t name_end = std::min(tag.find_first_of(" \n"), tag.size());
    std::vector<std::string> names;
    for (size_t i = name_end; i < tag.size();) {
      if (std::isspace(static_cast<unsigned char>(tag[i])) != 0) {
        ++i;
        continue;
      }
      const size_t equals = tag.find('=', i);
      if (equals == std::string_view::npos || equals + 1 >= tag.size() || tag[equals + 1] != '"') {
        ADD_FAILURE() << "an attribute without quotes in <" << tag << ">";
        break;
      }
      names.emplace_back(tag.substr(i, equals - i));
      const size_t close = tag.find('"', equals + 2);
      if (close == std::string_view::npos) {
        ADD_FAILURE() << "an attribute without an end in <" << tag << ">";
        break;
      }
      i = close + 1;
    }
    for (size_t i = 0; i < names.size(); ++i)
      EXPECT_EQ(std::count(names.begin(), names.end(), names[i]), 1) << tag;
    if (!is_empty) open.emplace_back(tag.substr(0, name_end));
  }
  EXPECT_TRUE(open.empty()) << open.back() << " is left open";
  return words;
}

}  // namespace crema::test
