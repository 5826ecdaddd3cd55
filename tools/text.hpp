// Quantities as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

/// "1.2 GB", "345 MB", "12.0 kB".
std::string human_bytes(double bytes);
/// Bytes of a text such as "2GB", "1.5 GiB", "500mb" or "2000000", rounded down; none if it is no
/// size. kB, MB and GB are powers of 1000; KiB, MiB and GiB of 1024.
std::optional<size_t> parse_bytes(std::string_view text);
/// Columns that the text takes on a terminal: two for a wide character, as those of East Asia and
/// emoji, none for a mark on the character before it, and one for each other character and for a
/// byte that is no UTF-8.
size_t columns_of(std::string_view text);
/// The text without the characters at its end that `columns` have no room for.
std::string cut_to(std::string_view text, size_t columns);
/// "1h02m", "3m20s", "12s".
std::string human_seconds(double seconds);
/// "431,080".
std::string grouped(int64_t number);
/// "0.020", "12.345", "1.2e-05": as many signs as tell losses and accuracies apart.
std::string human_value(double value);
/// "57.14%".
std::string percent(double share, int decimals = 2);
/// How many of the fields, from the left, fit into `columns` with two blanks between them; at least
/// one.
size_t fitting_fields(const std::vector<std::string>& fields, size_t columns);
/// Those fields, and "..." behind them where others are left out.
std::vector<std::string> with_sign_of_more(std::vector<std::string> fields, size_t columns);

}  // namespace crema::tools
