// One pass over all records of a source, on all OpenMP threads.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "crema/error.hpp"
#include "data/records/datum.hpp"
#include "data/records/record_source.hpp"

namespace crema {

/// What a thread of a scan has of its own.
struct ScanThread {
  std::unique_ptr<RecordReader> reader;
  std::unique_ptr<DatumDecoder> decoder;
};

/// The record, or, where records are files and this one cannot be read, none, and why in `problem`.
inline std::optional<Record> read_for_scan(const RecordSource& source, RecordReader& reader,
                                           int64_t index, std::string& problem) {
  if (!source.is_files()) return reader.read(index);
  try {
    return reader.read(index);
  } catch (const Error& error) {
    problem = error.what();
    return std::nullopt;
  }
}

/// Calls work(ScanThread&, index, Result&) for each record in [first, last) on the threads, and
/// take(index, Result&) in the caller's thread, in the order of the records. Results are reused.
/// The first exception in that order ends the scan.
template <class Result, class Work, class Take>
void scan_records(RecordSource& source, int64_t first, int64_t last, ColorMode color,
                  const Work& work, const Take& take, Depth depth = Depth::bytes) {
  constexpr int64_t kChunkPerThread = 16;
  std::vector<ScanThread> threads(static_cast<size_t>(std::max(1, omp_get_max_threads())));
  std::vector<Result> chunk(threads.size() * kChunkPerThread);
  std::vector<std::exception_ptr> failures(chunk.size());
  while (first < last) {
    const int64_t size = std::min<int64_t>(static_cast<int64_t>(chunk.size()), last - first);
    parallel_for(size, 1, [&](int64_t begin, int64_t end) {
      ScanThread& thread = threads[static_cast<size_t>(thread_number())];
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        try {
          if (!thread.reader) {
            thread = {source.reader(ReadOrder::forward),
                      std::make_unique<DatumDecoder>(color, ImageSize(), depth)};
          }
          work(thread, first + i, chunk[at]);
          failures[at] = nullptr;
        } catch (...) {
          failures[at] = std::current_exception();
        }
      }
    });
    for (int64_t i = 0; i < size; ++i) {
      if (failures[static_cast<size_t>(i)]) {
        std::rethrow_exception(failures[static_cast<size_t>(i)]);
      }
      take(first + i, chunk[static_cast<size_t>(i)]);
    }
    first += size;
  }
}

}  // namespace crema
