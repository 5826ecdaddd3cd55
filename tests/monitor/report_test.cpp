// The pages of runs: what they say, and that they are whole.
#include "monitor/report/report.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "core/less_is_better.hpp"
#include "data/images/image_decoder.hpp"
#include "monitor/png.hpp"
#include "monitor/report_page.hpp"
#include "monitor/run_folder.hpp"
#include "monitor/run_folder_fake.hpp"
#include "support/expect_error.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHostile = "</script><script>alert(1)</script>\"'&\xff\x01]]>";

/// A run with something for each part.
void fill_whole(FakeRun& fake) {
  fake.info.add_command("crema");
  fake.info.add_command("train");
  fake.info.add_command("--solver");
  fake.info.add_command("solver.prototxt");
  fake.info.set_folder("/data/work");
  fake.set("base_lr", "0.01");
  fake.add_event(RunRecord::START, 0);
  for (int at = 10; at <= 100; at += 10) {
    fake.add_display(at, 2.0 / at);
    if (at % 50 == 0) fake.add_test(at, 0.9 + at / 2000.0, 0.3, at == 50);
  }
  fake.add_event(RunRecord::NOTE, 60, "a lower rate");
  fake.add_event(RunRecord::END, 100);
  for (const int at : {0, 50, 100}) {
    ValueHistogram histogram;
    histogram.set_iteration(at);
    histogram.set_layer("conv1");
    histogram.set_least(-1);
    histogram.set_greatest(1);
    histogram.set_deviation(0.4);
    for (int i = 0; i <= 10; ++i) histogram.add_edges(-1 + i / 5.0);
    for (int i = 0; i < 10; ++i) histogram.add_counts(i * (at + 1));
    fake.histograms += json_line(histogram) + "\n";
  }
  Evaluation evaluation;
  evaluation.set_records(100);
  evaluation.set_seconds(1);
  evaluation.set_records_of_data(1000);
  evaluation.set_iteration(50);
  evaluation.set_is_best(true);
  Evaluation::Classes& classes = *evaluation.mutable_classes();
  classes.set_accuracy(0.875);
  classes.set_positions(100);
  for (int c = 0; c < 2; ++c) {
    Evaluation::Class& one = *classes.add_classes();
    one.set_label(c);
    one.set_name(c == 0 ? "cat" : "dog");
    one.set_support(50);
    one.set_recall(c == 0 ? 0.8125 : 0.9375);
    one.set_average_precision(0.9);
  }
  for (const int count : {40, 10, 3, 47}) classes.add_counts(count);
  Evaluation::Curve& curve = *classes.add_curves();
  curve.set_label(-1);
  curve.set_average_precision(0.9);
  for (const float at : {0.5F, 1.0F}) {
    curve.add_recall(at);
    curve.add_precision(1.5F - at);
  }
  Evaluation::Picture& mistake = *classes.add_mistakes();
  mistake.set_key("000_cat");
  mistake.set_width(2);
  mistake.set_height(1);
  mistake.set_type("png");
  const uint8_t pixels[] = {1, 2, 3, 4, 5, 6};
  mistake.set_image(png_of_pixels(pixels, 2, 1, 3));
  mistake.set_label(0);
  mistake.set_prediction(1);
  mistake.set_score(0.99);
  Evaluation::Picture& mask = *classes.add_masks();
  mask = mistake;
  const uint8_t of_classes[] = {0, 255};
  mask.set_mask(png_of_classes(of_classes, 2, 1));
  mask.set_truth_mask(mask.mask());
  Evaluation::Detections& detections = *evaluation.add_detections();
  detections.set_mean_average_precision(0.625);
  Evaluation::Picture& picture = *detections.add_pictures();
  picture = mistake;
  for (const bool is_truth : {true, false}) {
    Evaluation::Box& box = *picture.add_boxes();
    box.set_label(3);
    box.set_is_truth(is_truth);
    box.set_score(0.75);
    box.set_left(0.25);
    box.set_top(0.25);
    box.set_right(0.5);
    box.set_bottom(0.75);
  }
  fake.write("evaluation.json", json_line(evaluation));
  LayerTable layers;
  LayerTable::Layer& layer = *layers.add_layers();
  layer.set_name("conv1");
  layer.set_type("Convolution");
  layer.add_shape(64);
  layer.add_shape(20);
  layer.set_engine("native");
  layer.set_parameters(520);
  layer.set_memory(2e6);
  layer.set_forward_ms(1.25);
  LayerTable::Layer& fused = *layers.add_layers();
  fused.set_name("relu1");
  fused.set_type("ReLU");
  fused.set_fused_into("conv1");
  layers.set_parameters(520);
  layers.set_passes(10);
  layers.set_drawing("<svg xmlns=\"http://www.w3.org/2000/svg\"><style>.t{fill:red}</style></svg>");
  fake.write("layers.json", json_line(layers));
  fake.write("solver.prototxt", "base_lr: 0.01 # <a> & b\n");
}

TEST(Report, HasAllPartsAndIsWellFormed) {
  FakeRun fake;
  fill_whole(fake);
  const std::string page = run_report(fake.read());
  const std::string words = expect_well_formed(page);
  for (const char* part : {"lenet-1", "finished", "Curves", "Evaluation", "Most confident mistakes",
                           "Detections", "Masks", "Layers", "Weights", "What happened",
                           "Configuration", "Continue this run", "a lower rate"})
    EXPECT_TRUE(has(words, part));
  EXPECT_TRUE(has(words, "the best weights (iteration 50), over 100 of 1,000 records"));
  EXPECT_TRUE(has(words, "87.50%"));  // accuracy
  EXPECT_TRUE(has(words, "81.25%"));  // of the class
  EXPECT_TRUE(has(words, "62.50%"));  // mean average precision
  EXPECT_TRUE(has(words, "000_cat"));
  EXPECT_TRUE(has(words, "computed by conv1"));
  EXPECT_TRUE(has(words, "64 × 20"));
  EXPECT_TRUE(has(page, ".net svg{.t{fill:red}}"));
  EXPECT_TRUE(has(page, "x=\"0.2500\" y=\"0.2500\" width=\"0.2500\" height=\"0.5000\""))
      << "the box";
}

TEST(Report, TakesNothingFromElsewhere) {
  FakeRun fake;
  fill_whole(fake);
  const std::string page = run_report(fake.read());
  for (const char* address : {"src=\"http", "href=\"http", "url(http", "@import", "<link"})
    EXPECT_FALSE(has(page, address));
  EXPECT_TRUE(has(page, "default-src 'none'"));
}

TEST(Report, NumbersAreThoseOfTheFiles) {
  FakeRun fake;
  fill_whole(fake);
  const auto data = data_of(run_report(fake.read()));
  const DrawnData loss = line_of(data, "chart-loss", 0), tests = line_of(data, "chart-loss", 1);
  ASSERT_EQ(loss.values.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(loss.iterations[static_cast<size_t>(i)], 10 * (i + 1));
    EXPECT_NEAR(loss.values[static_cast<size_t>(i)], 2.0 / (10 * (i + 1)), 1e-5);
  }
  EXPECT_THAT(tests.iterations, ElementsAre(50, 100));
  EXPECT_THAT(line_of(data, "chart-output-0", 0).values, ElementsAre(0.925, 0.95));
  EXPECT_THAT(line_of(data, "chart-wait", 0).values.front(), 0.25);
}

TEST(Report, TheBestIsWhatTheSolverKept) {
  FakeRun fake;
  fill_whole(fake);
  const RunFiles run = fake.read();
  const auto main = main_output(run);
  ASSERT_TRUE(main);
  EXPECT_EQ(main->name, "accuracy");
  EXPECT_EQ(main->best.iteration, 50) << "the record says so, though 0.95 is more than 0.925";
  EXPECT_TRUE(has(expect_well_formed(run_report(run)), "best accuracy, at 50"));
}

TEST(Report, LossesFall) {
  EXPECT_TRUE(less_is_better("loss"));
  EXPECT_TRUE(less_is_better("top1_err"));
  EXPECT_FALSE(less_is_better("accuracy"));
  EXPECT_FALSE(less_is_better("lossless"));
  FakeRun fake;
  fake.set("snapshot_best", "\"top1_err\"");
  for (const double error : {0.5, 0.25, 0.75}) {
    RunRecord record = fake.test(static_cast<int>(error * 100), 0.5, 1);
    record.mutable_outputs()->clear();
    (*record.mutable_outputs())["top1_err"] = error;
    record.set_iteration(record.iteration() == 75 ? 90 : record.iteration() == 50 ? 10 : 20);
    fake.add(record);
  }
  const auto main = main_output(fake.read());
  ASSERT_TRUE(main);
  EXPECT_TRUE(main->least_is_best);
  EXPECT_EQ(main->best.value, 0.25);
  EXPECT_EQ(main->best.iteration, 20);
  EXPECT_EQ(main->last.value, 0.75);
}

TEST(Report, HostileNamesAreText) {
  FakeRun fake;
  fake.add_event(RunRecord::NOTE, 1, "a note");
  RunRecord record = fake.test(10, 0.5, 1);
  (*record.mutable_outputs())["</script><b>\"'&]]>"] = 1;
  fake.add(record);
  fake.write("net.prototxt", "name: \"</pre><script>\"\n" + std::string(kHostile));
  RunFiles run = fake.read();
  run.info.set_name(kHostile);
  run.info.set_net(kHostile);
  run.info.set_device(kHostile);
  run.info.add_command(kHostile);
  RunInfo::Setting& setting = *run.info.add_settings();
  setting.set_name(kHostile);
  setting.set_value(kHostile);
  run.events[0].set_text(kHostile);
  run.warnings.emplace_back(kHostile);
  Evaluation evaluation;
  evaluation.add_notes(kHostile);
  Evaluation::Classes& classes = *evaluation.mutable_classes();
  classes.add_classes()->set_name(kHostile);
  classes.add_counts(1);
  classes.add_mistakes()->set_key(kHostile);
  run.evaluation = evaluation;
  LayerTable layers;
  layers.add_layers()->set_name(kHostile);
  run.layers = layers;
  ValueHistogram histogram;
  histogram.set_layer(kHostile);
  histogram.add_edges(0);
  histogram.add_edges(1);
  histogram.add_counts(1);
  run.histograms.push_back(histogram);
  const std::string page = run_report(run);
  expect_well_formed(page);
  EXPECT_FALSE(has(page, "<script>alert"));
  EXPECT_FALSE(has(page, "</script><b>"));
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(1)"));
  const std::string both = comparison_report({run, run});
  expect_well_formed(both);
  EXPECT_FALSE(has(both, "<script>alert"));
}

TEST(Report, ValuesThatAreNotFiniteAreSaid) {
  FakeRun fake;
  fake.add_display(10, 1);
  fake.add_display(20, std::numeric_limits<double>::quiet_NaN());
  fake.add_display(30, HUGE_VAL);
  fake.add_display(40, 2);
  fake.add_test(40, std::numeric_limits<double>::quiet_NaN(), -HUGE_VAL);
  const std::string page = run_report(fake.read());
  const std::string words = expect_well_formed(page);
  EXPECT_TRUE(has(words, "training: 2 values are not finite, the first at iteration 20"));
  const auto data = data_of(page);
  EXPECT_THAT(line_of(data, "chart-loss", 0).iterations, ElementsAre(10, 40));
  EXPECT_FALSE(has(page, "nan"));
}

TEST(Report, RunsWithLittle) {
  FakeRun empty;
  const std::string words = expect_well_formed(run_report(empty.read()));
  EXPECT_TRUE(has(words, "No display or test was recorded yet"));
  EXPECT_TRUE(has(words, "no record yet"));

  FakeRun one;
  one.add_display(1, 3);
  const std::string page = run_report(one.read());
  expect_well_formed(page);
  EXPECT_THAT(line_of(data_of(page), "chart-loss", 0).values, ElementsAre(3));

  FakeRun tests_alone;
  tests_alone.add_test(0, 0.5, 2);
  expect_well_formed(run_report(tests_alone.read()));

  FakeRun nothing_finite;
  nothing_finite.add_display(1, HUGE_VAL);
  expect_well_formed(run_report(nothing_finite.read()));
}

TEST(Report, AFailureIsSaid) {
  FakeRun fake;
  fake.add_display(10, 1);
  RunRecord end;
  end.set_kind(RunRecord::END);
  end.set_reason(RunRecord::FAILED);
  end.set_iteration(10);
  end.set_text("layer 'conv1': NaN at record 7");
  fake.add(end);
  const std::string words = expect_well_formed(run_report(fake.read()));
  EXPECT_TRUE(has(words, "layer 'conv1': NaN at record 7"));
  EXPECT_TRUE(has(words, "failed"));
}

TEST(Report, TellsHowToGoOn) {
  FakeRun fake;
  for (const char* word : {"crema", "train", "--solver", "my solver.prototxt", "--weights",
                           "a.caffemodel", "--overwrite", "--set=base_lr=0.1"})
    fake.info.add_command(word);
  fake.info.set_folder("/data/it's here");
  fake.add_display(50, 1);
  EXPECT_THAT(commands_of(fake.read()),
              HasSubstr("cd '/data/it'\\''s here'\n# goes on from the last snapshot\n"
                        "crema train --solver 'my solver.prototxt' --set=base_lr=0.1 --resume\n"));
  fake.info.add_command("--resume");
  fake.add_display(100, 1);
  const std::string done = commands_of(fake.read());
  EXPECT_THAT(done, HasSubstr("--resume --set max_iter=200\n"));
  EXPECT_THAT(done, Not(HasSubstr("--resume --resume")));
}

TEST(Report, ALongRunStaysSmall) {
  RunFiles run;
  run.info.set_name("long");
  constexpr int kPoints = 1000000;
  for (int i = 1; i <= kPoints; ++i) {
    const double noise = std::sin(i * 12.9898) * 0.1;
    run.loss.push_back({i, 2 / std::sqrt(i) + noise});
    run.rate.push_back({i, 0.01});
    run.images_per_second.push_back({i, 1000 + 100 * noise});
    run.data_wait.push_back({i, 0.1 + noise});
    run.gradient_norm.push_back({i, 1 + noise});
    run.time.push_back({i, i * 0.01});
  }
  run.loss[543210].value = 50;  // one that no mean shows
  run.loss[7777].value = -40;
  run.iterations = kPoints;
  LayerTable layers;
  for (int i = 0; i < 500; ++i) {
    LayerTable::Layer& layer = *layers.add_layers();
    layer.set_name(text("layer", i));
    layer.set_type("Convolution");
    layer.set_engine("native");
    for (int k = 0; k < 6; ++k) {
      ValueHistogram histogram;
      histogram.set_iteration(k * 1000);
      histogram.set_layer(layer.name());
      histogram.set_least(-1);
      histogram.set_greatest(1);
      histogram.add_edges(-1);
      for (int b = 0; b < 64; ++b) {
        histogram.add_edges(-1 + (b + 1) / 32.0);
        histogram.add_counts(b % 7);
      }
      run.histograms.push_back(histogram);
    }
  }
  run.layers = layers;
  const auto start = std::chrono::steady_clock::now();
  const std::string page = run_report(run);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(page.size(), 3'000'000U);
  EXPECT_LT(seconds, 20);
  expect_well_formed(page);
  // Least and greatest of their columns are still there.
  const auto data = data_of(page);
  double least = 0, greatest = 0;
  const auto& line = data.fields().at("charts").list_value().values(0).struct_value();
  const auto& fields = line.fields().at("lines").list_value().values(0).struct_value().fields();
  for (const auto& value : fields.at("lo").list_value().values())
    least = std::min(least, value.number_value());
  for (const auto& value : fields.at("hi").list_value().values())
    greatest = std::max(greatest, value.number_value());
  EXPECT_EQ(least, -40);
  EXPECT_EQ(greatest, 50);
}

TEST(Thinned, KeepsMeansAndExtremesOfColumns) {
  Curve curve;
  for (int i = 0; i < 1000; ++i) curve.push_back({i, static_cast<double>(i % 10)});
  const ThinnedCurve thin = thinned(curve, 100);
  ASSERT_EQ(thin.values.size(), 100U);
  EXPECT_EQ(thin.values[7], 4.5);
  EXPECT_EQ(thin.least[7], 0);
  EXPECT_EQ(thin.greatest[7], 9);
  EXPECT_EQ(thin.iterations[7], 74);
  const ThinnedCurve whole = thinned(curve, 500);
  EXPECT_EQ(whole.values.size(), 1000U);
  EXPECT_TRUE(whole.least.empty());
}

TEST(Smoothed, IsTheMeanWeightedByDistance) {
  const std::vector<int32_t> at = {0, 10, 30};
  const std::vector<double> values = {1, 2, 4};
  EXPECT_EQ(smoothed(at, values, 0), values);
  const std::vector<double> smooth = smoothed(at, values, 10);
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0, weights = 0;
    for (size_t k = 0; k < 3; ++k) {
      const double weight = std::exp(-std::abs(at[i] - at[k]) / 10.0);
      sum += weight * values[k];
      weights += weight;
    }
    EXPECT_NEAR(smooth[i], sum / weights, 1e-12);
  }
}

TEST(RoundTicks, AreRoundAndWithin) {
  EXPECT_THAT(round_ticks(0, 1, 4), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(round_ticks(0, 1000, 5), ElementsAre(0, 200, 400, 600, 800, 1000));
  EXPECT_THAT(round_ticks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_EQ(round_ticks(3, 3, 4).size(), 1U);
  // With the margin above 1 there were two of them.
  EXPECT_THAT(round_ticks(0, 1.04, 4), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  for (double high = 1; high < 100; high *= 1.03) {
    const std::vector<double> ticks = round_ticks(0.31, 0.31 + high, 4);
    EXPECT_GE(ticks.size(), 3U) << high;
    EXPECT_LE(ticks.size(), 5U) << high;
  }
}

TEST(WriteReport, WritesTheFile) {
  FakeRun fake;
  fill_whole(fake);
  const std::string folder = fake.folder();
  EXPECT_THAT(write_report(folder), ElementsAre());
  const auto page = text_of_file(folder + "/report.html");
  ASSERT_TRUE(page);
  expect_well_formed(*page);
  expect_error([&] { write_report(folder + "/none"); }, {"no such folder"});
}

TEST(Png, DecodesToItsPixels) {
  if (!CREMA_BUILT_WITH_LIBPNG && !CREMA_BUILT_WITH_OPENCV) GTEST_SKIP();
  const std::vector<uint8_t> pixels = {10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 255, 128};
  const std::string file = png_of_pixels(pixels, 2, 2, 3);
  ImageDecoder decoder;
  decoder.open(file, ColorMode::color);
  const Image image = decoder.whole();
  ASSERT_EQ(image.count(), 12);
  for (size_t i = 0; i < 12; ++i)  // blue first
    EXPECT_EQ(image.bytes[i], pixels[i / 3 * 3 + 2 - i % 3]) << i;
  const std::vector<uint8_t> gray = {1, 200, 3};
  const std::string gray_file = png_of_pixels(gray, 1, 3, 1);
  decoder.open(gray_file, ColorMode::gray);
  const Image second = decoder.whole();
  EXPECT_EQ(second.bytes[1], 200);
  expect_error([&] { png_of_pixels(gray, 2, 2, 1); }, {"2 x 2"});
}

TEST(Words, OfNumbers) {
  EXPECT_EQ(count_words(1234567), "1,234,567");
  EXPECT_EQ(count_words(-123), "-123");
  EXPECT_EQ(value_words(0.5), "0.5");
  EXPECT_EQ(value_words(12345.6), "12,346");
  EXPECT_EQ(value_words(1.5e-5), "1.50e-05");
  EXPECT_EQ(value_words(std::nan("")), "NaN");
  EXPECT_EQ(bytes_words(2.5e6), "2.5 MB");
  EXPECT_EQ(time_words(3725), "1h02m");
  EXPECT_EQ(time_words(65), "1m05s");
  EXPECT_EQ(date_words(86400), "1970-01-02 00:00 UTC");
  EXPECT_EQ(date_words(HUGE_VAL), "");
  EXPECT_EQ(moment_words(86405), "1970-01-02 00:00:05 UTC");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
}

}  // namespace
}  // namespace crema::test
