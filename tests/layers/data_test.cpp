#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "crema/net.hpp"
#include "layers/data_layer.hpp"
#include "proto/layer.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::DataLayerTest;
using test::Source;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(DataLayerTest, GivesBatchesInOrderAndWraps) {
  Source source(data_param(database(5) + "batch_size: 2"));
  EXPECT_EQ(source.data().shape(), (Shape{2, 1, 2, 3}));
  EXPECT_EQ(source.label().shape(), (Shape{2}));
  source.forward();
  EXPECT_THAT(source.data().values<float>(), ElementsAre(0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(source.label().values<float>(), ElementsAre(0, 1));
  EXPECT_THAT(source.labels(3), ElementsAre(2, 3, 4, 0, 1, 2));
  EXPECT_TRUE(source.layer().is_source());
}

TEST_F(DataLayerTest, WithoutLabelsAndInDouble) {
  Source source(data_param(database(3) + "batch_size: 1", "scale: 0.5"), {}, Phase::train,
                DType::f64, 1);
  source.forward();
  source.forward();
  EXPECT_THAT(source.data().values<double>(), ElementsAre(0.5, 1.0, 1.5, 2.0, 2.5, 3.0));
}

TEST_F(DataLayerTest, DoubleNetsGetLabelsToo) {
  Source source(data_param(database(3) + "batch_size: 3"), {}, Phase::train, DType::f64);
  EXPECT_THAT(source.labels(1), ElementsAre(0, 1, 2));
}

TEST_F(DataLayerTest, LabelsThatTheNetsTypeDoesNotHoldAreErrors) {
  constexpr int kExact = 1 << 24;  // f32 holds this and not the next one
  test::write_database(folder_ / "large",
                       {{"a", test::byte_datum(1, 1, 1, kExact).SerializeAsString()},
                        {"b", test::byte_datum(1, 1, 1, kExact + 1).SerializeAsString()},
                        {"c", test::byte_datum(1, 1, 1, INT32_MAX).SerializeAsString()}});
  const std::string settings =
      data_param("source: '" + (folder_ / "large") + "' backend: LMDB batch_size: 1");
  Source narrow(settings);
  EXPECT_THAT(narrow.labels(1), ElementsAre(kExact));
  expect_error([&] { narrow.forward(); },
               {"record 'b'", "label 16777217 has no exact value in f32", "net in f64"});
  narrow.layer().set_cursor({0, 2});
  expect_error([&] { narrow.forward(); }, {"record 'c'", "label 2147483647"});
  Source wide(settings, {}, Phase::train, DType::f64);
  EXPECT_THAT(wide.labels(3), ElementsAre(kExact, kExact + 1, INT32_MAX));
  Source without(settings, {}, Phase::train, DType::f32, 1);
  EXPECT_NO_THROW(without.values(3));
}

// It said to set crop_size where that was set, and to make images of one size that were.
TEST_F(DataLayerTest, RecordsThatDifferSayInWhat) {
  const auto settings = [&](const std::string& name, int channels, int width) {
    test::write_database(folder_ / name,
                         {{"a", test::byte_datum(1, 2, 2, 0).SerializeAsString()},
                          {"b", test::byte_datum(channels, 2, width, 0).SerializeAsString()}});
    return "source: '" + (folder_ / name) + "' backend: LMDB batch_size: 2";
  };
  Source channels(data_param(settings("channels", 3, 2), "crop_size: 2"));
  try {
    channels.forward();
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("give all records 1 channels"), std::string::npos) << text;
    EXPECT_NE(text.find("force_gray: true"), std::string::npos) << text;
    EXPECT_EQ(text.find("crop_size"), std::string::npos) << text;
  }
  Source sizes(data_param(settings("sizes", 1, 3)));
  expect_error([&] { sizes.forward(); },
               {"record 'b' gives a sample of 1x2x3", "one size", "--resize", "or set crop_size"});
}

TEST_F(DataLayerTest, SeveralLabelsAreRowsOfTop1) {
  const auto record = [](std::initializer_list<float> labels) {
    Datum datum = test::byte_datum(1, 1, 1, 0);
    datum.clear_label();
    for (const float label : labels) datum.add_float_label(label);
    return datum.SerializeAsString();
  };
  const auto settings = [&](const std::string& name, const test::Records& records) {
    test::write_database(folder_ / name, records);
    return data_param("source: '" + (folder_ / name) + "' backend: LMDB batch_size: 2");
  };
  Source two(settings("two", {{"a", record({0.5f, -1})}, {"b", record({3, 1e-3f})}}));
  EXPECT_EQ(two.label().shape(), (Shape{2, 2}));
  two.forward();
  EXPECT_THAT(two.label().values<float>(), ElementsAre(0.5f, -1, 3, 1e-3f));
  Source one(settings("one", {{"a", record({0.1f})}, {"b", record({2})}}), {}, Phase::train,
             DType::f64);
  EXPECT_EQ(one.label().shape(), (Shape{2}));
  one.forward();
  EXPECT_THAT(one.label().values<double>(), ElementsAre(double{0.1f}, 2));

  Source mixed(settings("mixed", {{"a", record({1, 2})}, {"b", record({1})}}));
  expect_error([&] { mixed.forward(); }, {"record 'b' has 1 labels, the first one 2"});
  Source without(settings("without", {{"a", record({1, 2})}, {"b", record({})}}));
  expect_error([&] { without.forward(); },
               {"record 'b' has no label, the first one 2 labels", "the same number"});
  // Where one label is enough, none counts as 0, as published.
  Source zero(settings("zero", {{"a", record({})}, {"b", record({3})}}));
  EXPECT_THAT(zero.labels(1), ElementsAre(0, 3));
  expect_error(
      [&] {
        Source(settings("nan", {{"a", record({1, NAN})}}));
      },
      {"record 'a'", "label is nan"});
  Datum both;
  both.ParseFromString(record({1, 2}));
  both.set_label(1);
  expect_error(
      [&] {
        Source(settings("both", {{"a", both.SerializeAsString()}}));
      },
      {"record 'a'", "label and float_label"});
}

TEST_F(DataLayerTest, SkippedRecordsAreToldOnceAnEpochAndAtTheEnd) {
  test::write_database(folder_ / "db", {{"1", test::byte_datum(1, 1, 1, 1).SerializeAsString()},
                                        {"2", "\xff"},
                                        {"3", test::byte_datum(1, 2, 1, 3).SerializeAsString()},
                                        {"4", test::byte_datum(1, 1, 1, 4).SerializeAsString()}});
  const std::string settings = data_param("source: '" + (folder_ / "db") +
                                          "' backend: LMDB batch_size: 2 on_bad_record: SKIP");
  std::vector<std::string> notes;
  const Logger logger = [&](Severity, const std::string& text) { notes.push_back(text); };
  {
    Source source(settings, {.logger = logger});
    EXPECT_THAT(source.labels(2), ElementsAre(1, 4, 4, 4));
    EXPECT_THAT(notes, testing::IsEmpty());
    EXPECT_THAT(source.labels(2), ElementsAre(1, 4, 4, 4));
    EXPECT_EQ(source.layer().cursor(), (RecordCursor{2, 0}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_THAT(notes[0],
                testing::AllOf(HasSubstr("'the_data'"), HasSubstr("in epoch 0, 2 records"),
                               HasSubstr("the first: record '2'"), HasSubstr("no Datum")));
  }
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[1], HasSubstr("in epoch 1, 2 records"));
}

TEST_F(DataLayerTest, DamagedJpegsAreErrorsAndSkipCountsThem) {
  if (!test::kBuiltWithOpenCv || !test::kBuiltWithLibjpeg)
    GTEST_SKIP()
        << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  const auto record = [](const std::string& file, int label) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(file);
    datum.set_label(label);
    return datum.SerializeAsString();
  };
  const std::string whole = test::jpeg_file(test::picture(120, 160, 3), 120, 160);
  std::string damaged = whole;
  damaged.replace(damaged.size() / 2, 100, 100, '\0');
  test::write_database(
      folder_ / "db",
      {{"1", record(whole, 1)}, {"2", record(damaged, 2)}, {"3", record(whole, 3)}});
  const std::string db = "source: '" + (folder_ / "db") + "' backend: LMDB batch_size: 3 ";
  Source fails(data_param(db));
  expect_error([&] { fails.forward(); }, {"record '2'", "damaged (Corrupt JPEG data"});
  std::vector<std::string> notes;
  {
    Source skips(data_param(db + "on_bad_record: SKIP"),
                 {.logger = [&](Severity, const std::string& text) { notes.push_back(text); }});
    EXPECT_THAT(skips.labels(1), ElementsAre(1, 3, 3));
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0],
              testing::AllOf(HasSubstr("1 record"), HasSubstr("record '2'"), HasSubstr("damaged")));
}

TEST_F(DataLayerTest, ManyBadRecordsInARowAreAnErrorThoughOthersAreGood) {
  test::Records records = test::counting_records(1, 1, 1, 1);
  for (int i = 0; i < 1200; ++i) records.emplace_back(text("bad", 1000 + i), "\xff");
  test::write_database(folder_ / "db", records);
  Source source(data_param("source: '" + (folder_ / "db") +
                           "' backend: LMDB batch_size: 1 on_bad_record: SKIP"));
  EXPECT_THAT(source.labels(1), ElementsAre(0));
  expect_error([&] { source.forward(); }, {"none of 1000 records in a row", "record 'bad1000'"});
}

TEST_F(DataLayerTest, FloatRecords) {
  Datum datum = test::byte_datum(1, 1, 2, 4);
  datum.clear_data();
  datum.add_float_data(0.25f);
  datum.add_float_data(-8);
  test::write_database(folder_ / "floats", {{"a", datum.SerializeAsString()}});
  Source source(data_param("source: '" + (folder_ / "floats") + "' backend: LMDB batch_size: 2",
                           "scale: 2 mean_value: 1"));
  source.forward();
  EXPECT_THAT(source.data().values<float>(), ElementsAre(-1.5f, -18, -1.5f, -18));
}

TEST_F(DataLayerTest, EncodedRecordsOfSeveralSizesAreCropped) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const auto record = [](int side, char value) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(test::encoded(
        test::pgm(side, side, std::string(static_cast<size_t>(side * side), value)), "png"));
    return datum.SerializeAsString();
  };
  test::write_database(folder_ / "images", {{"a", record(5, 'a')}, {"b", record(9, 'b')}});
  const std::string data = "source: '" + (folder_ / "images") + "' backend: LMDB batch_size: 2";
  Source source(data_param(data, "crop_size: 4 force_color: true"));
  source.forward();
  EXPECT_EQ(source.data().shape(), (Shape{2, 3, 4, 4}));
  const auto values = source.data().values<float>();
  EXPECT_THAT(values.subspan(0, 48), Each('a'));
  EXPECT_THAT(values.subspan(48), Each('b'));
  Source whole(data_param(data));
  expect_error([&] { whole.forward(); }, {"record 'b'", "1x9x9", "1x5x5", "crop_size"});
}

TEST_F(DataLayerTest, CropIsCentredInTestAndWandersInTrain) {
  const std::string settings = data_param(database(1, 1, 4, 4) + "batch_size: 40", "crop_size: 2");
  Source test(settings, {}, Phase::test);
  test.forward();
  EXPECT_THAT(test.data().values<float>().subspan(0, 4), ElementsAre(5, 6, 9, 10));
  Source train(settings);
  train.forward();
  std::set<float> corners;
  for (int64_t n = 0; n < 40; ++n) corners.insert(static_cast<float>(train.data().at(n * 4)));
  EXPECT_EQ(corners, (std::set<float>{0, 1, 2, 4, 5, 6, 8, 9, 10}));
}

TEST_F(DataLayerTest, CropAsLargeAsTheRecordWorksAndLargerIsAnError) {
  const std::string db = database(1, 1, 227, 227) + "batch_size: 1";
  Source source(data_param(db, "crop_size: 227"));
  source.forward();
  EXPECT_EQ(source.data().shape(), (Shape{1, 1, 227, 227}));
  EXPECT_EQ(source.data().at(1), 1);
  expect_error([&] { Source(data_param(db, "crop_size: 228")); },
               {"record '00000000'", "crop_size 228", "227 x 227"});
}

TEST_F(DataLayerTest, ShuffleTakesEachRecordOnceAnEpoch) {
  const std::string settings = data_param(database(12) + "batch_size: 4 shuffle: true");
  Source source(settings);
  std::vector<std::vector<int>> epochs;
  for (int e = 0; e < 3; ++e) {
    epochs.push_back(source.labels(3));
    std::vector<int> sorted = epochs.back();
    std::sort(sorted.begin(), sorted.end());
    EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(Source(settings).labels(3), epochs[0]);
  EXPECT_NE(Source(settings, {.seed = 99}).labels(3), epochs[0]);
}

TEST_F(DataLayerTest, ResumesAtItsCursorWithAnyNumberOfThreads) {
  const std::string db = database(11, 2, 6, 6) + "batch_size: 4 shuffle: true ";
  const std::string transform = "mirror: true crop_size: 3 scale: 0.1";
  Source through(data_param(db, transform));
  through.values(5);
  const RecordCursor cursor = through.layer().cursor();
  EXPECT_EQ(cursor, (RecordCursor{1, 9}));
  const std::vector<float> expected = through.values(6);

  for (const int threads : {1, 3}) {
    Source resumed(data_param(db + text("threads: ", threads), transform));
    resumed.layer().set_cursor(cursor);
    EXPECT_EQ(resumed.layer().cursor(), cursor);
    EXPECT_EQ(resumed.values(6), expected) << threads << " threads";
    EXPECT_EQ(resumed.layer().cursor(), through.layer().cursor());
    // Back again, in the midst of a run.
    resumed.layer().set_cursor(cursor);
    EXPECT_EQ(resumed.values(6), expected);
  }
}

TEST_F(DataLayerTest, ResumesAmongSeveralReaders) {
  const std::string settings = data_param(database(7) + "batch_size: 2");
  Source through(settings), resumed(settings);
  for (Source* source : {&through, &resumed}) {
    source->state().rank = 1;
    source->state().world_size = 3;
  }
  EXPECT_THAT(through.labels(2), ElementsAre(1, 4, 0, 3));
  EXPECT_EQ(through.layer().cursor(), (RecordCursor{1, 5}));
  resumed.layer().set_cursor(through.layer().cursor());
  EXPECT_EQ(resumed.labels(3), through.labels(3));
}

TEST_F(DataLayerTest, SetCursorTakesTheSeedThatTheRunHasThen) {
  const std::string settings = data_param(database(50) + "batch_size: 10 shuffle: true");
  Source one(settings, {.seed = 5});
  const auto expected = one.labels(3);
  Source other(settings, {.seed = 6});
  other.labels(1);
  other.state().seed = 5;
  other.layer().set_cursor({});
  EXPECT_EQ(other.labels(3), expected);
}

TEST_F(DataLayerTest, CursorIsThatOfTheNextBatchWhateverWasReadAhead) {
  Source source(data_param(database(10) + "batch_size: 3 prefetch: 3"));
  EXPECT_EQ(source.layer().cursor(), (RecordCursor{0, 0}));
  source.labels(2);
  EXPECT_EQ(source.layer().cursor(), (RecordCursor{0, 6}));
  source.labels(2);
  EXPECT_EQ(source.layer().cursor(), (RecordCursor{1, 2}));
  EXPECT_EQ(source.layer().records_per_batch(), 3);
  expect_error([&] { source.layer().set_cursor({0, 10}); }, {"record 10", "has 10 records"});
}

TEST_F(DataLayerTest, RandSkipBeginsAtARecordOfTheSeed) {
  const std::string settings = data_param(database(20) + "batch_size: 1 rand_skip: 15");
  std::set<int> starts;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Source source(settings, {.seed = seed});
    const RecordCursor cursor = source.layer().cursor();
    const std::vector<int> labels = source.labels(1);
    EXPECT_EQ(labels[0], static_cast<int>(cursor.position));
    starts.insert(labels[0]);
  }
  EXPECT_EQ(starts.size(), 15u);
  EXPECT_EQ(*starts.rbegin(), 14);
}

TEST_F(DataLayerTest, KnowsTheKeysOfItsLastBatch) {
  Source source(data_param(database(5) + "batch_size: 2"));
  EXPECT_EQ(source.layer().record_key(0), "");
  source.labels(2);
  EXPECT_EQ(source.layer().record_key(0), "00000002");
  EXPECT_EQ(source.layer().record_key(1), "00000003");
  EXPECT_EQ(source.layer().record_key(2), "");
}

TEST_F(DataLayerTest, TwoLayersReadOneDatabase) {
  const std::string settings = data_param(database(6) + "batch_size: 2");
  Source train(settings), test(settings, {}, Phase::test);
  EXPECT_EQ(train.labels(4), test.labels(4));
}

TEST_F(DataLayerTest, MeasuresItsWaiting) {
  Source source(data_param(database(6) + "batch_size: 2 prefetch: 1"));
  // Any one batch may be there in time, where the machine is busy.
  double waited = 0;
  for (int batch = 0; batch < 10000 && waited == 0; ++batch) {
    source.forward();
    waited = source.layer().take_wait_seconds();
  }
  EXPECT_GT(waited, 0);
  EXPECT_EQ(source.layer().take_wait_seconds(), 0);
}

TEST_F(DataLayerTest, BadRecordIsAnErrorOfItsBatchThatNamesItsKey) {
  test::write_database(folder_ / "bad", {{"1", test::byte_datum(1, 1, 1, 0).SerializeAsString()},
                                         {"2", test::byte_datum(1, 1, 1, 0).SerializeAsString()},
                                         {"3", "\xff\xff"},
                                         {"4", test::byte_datum(1, 1, 2, 0).SerializeAsString()}});
  const std::string db = "source: '" + (folder_ / "bad") + "' backend: LMDB ";
  Source source(data_param(db + "batch_size: 2"));
  source.labels(1);
  expect_error([&] { source.forward(); }, {"record '3'", "no Datum"});
  source.layer().set_cursor({0, 3});
  expect_error([&] { source.forward(); }, {"record '4'", "1x1x2", "1x1x1"});
}

// As published: the net follows the sizes of records that are given one by one.
TEST_F(DataLayerTest, BatchesOfOneMayDifferInSize) {
  test::write_database(folder_ / "sizes",
                       {{"1", test::byte_datum(1, 1, 2, 0).SerializeAsString()},
                        {"2", test::byte_datum(1, 3, 1, 1, 7).SerializeAsString()},
                        {"3", test::byte_datum(2, 1, 1, 2).SerializeAsString()}});
  Context context;
  Net net(test::net_param("layer { name: 'data' type: 'Data' top: 'data' top: 'label' " +
                          data_param("source: '" + (folder_ / "sizes") + "' batch_size: 1") +
                          " } layer { name: 'p' type: 'Power' bottom: 'data' top: 'p' }"),
          context, {.phase = Phase::test});
  net.forward();
  EXPECT_EQ(net.output("p").shape(), (Shape{1, 1, 1, 2}));
  net.forward();
  EXPECT_EQ(net.output("p").shape(), (Shape{1, 1, 3, 1}));
  EXPECT_THAT(net.output("p").values<float>(), ElementsAre(7, 8, 9));
  EXPECT_EQ(net.output("label").at(0), 1);
  expect_error([&] { net.forward(); }, {"layer 'data'", "record '3'", "2x1x1", "channels"});
}

TEST_F(DataLayerTest, SettingsThatCannotWorkAreErrors) {
  const std::string db = database(2);
  const auto fails = [&](const std::string& settings,
                         std::initializer_list<std::string_view> words) {
    expect_error([&] { Source source(settings); }, words);
  };
  fails(data_param(db), {"no batch_size"});
  fails(data_param(db + "batch_size: 0"), {"no batch_size, or 0"});
  fails(data_param("batch_size: 1"), {"no path"});
  fails(data_param("batch_size: 1 source: 'no_such_lmdb'"), {"'no_such_lmdb' does not exist"});
  fails(data_param(db + "batch_size: 1 prefetch: 0"), {"prefetch: 0"});
  fails(data_param(db + "batch_size: 1 prefetch: 65537"), {"prefetch: 65537", "65536 batches"});
  fails(data_param(db + "batch_size: 1 threads: 257"), {"threads: 257", "more than 256"});
  fails(data_param(db + "batch_size: 1 scale: 0.5"), {"old form", "transform_param { scale }"});
  fails(data_param(db + "batch_size: 1 crop_size: 2"), {"transform_param { crop_size }"});
  fails(data_param(db + "batch_size: 1 side: 7"), {"data_param { side }", "not implemented"});
  fails(data_param(db + "batch_size: 1", "force_color: true force_gray: true"),
        {"both force_color and force_gray"});
  fails(data_param(db + "batch_size: 1 force_encoded_color: true", "force_gray: true"),
        {"force_encoded_color"});
  fails(data_param(db + "batch_size: 1", "flow: true"), {"flow"});
}

TEST_F(DataLayerTest, PublishedDefaultBackendOpensLmdbAndSaysSo) {
  test::write_counting_database(folder_ / "db", 2);
  std::vector<std::string> notes;
  Source source(data_param("source: '" + (folder_ / "db") + "' batch_size: 1 cache: true"),
                {.logger = [&](Severity, const std::string& text) { notes.push_back(text); }});
  EXPECT_THAT(source.labels(2), ElementsAre(0, 1));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("cache"), HasSubstr("backend: LMDB")));
}

}  // namespace
}  // namespace crema
