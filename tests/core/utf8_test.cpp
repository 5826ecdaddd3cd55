#include "core/utf8.hpp"

#include <gtest/gtest.h>

namespace crema {
namespace {

TEST(Utf8, CharactersHaveTheirLengths) {
  for (const char* text : {"a", "\x7F", "\xC2\x80", "\xC3\xA9", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEF\xBF\xBD", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(utf8_length(text), std::string_view(text).size()) << text;
    EXPECT_EQ(utf8_length(std::string(text) + "\xFF"), std::string_view(text).size()) << text;
  }
}

TEST(Utf8, OtherBytesAreNone) {
  // No first byte, cut off, longer than needed, half of a pair, behind the last character.
  for (const char* text :
       {"", "\x80", "\xFF", "\xC3", "\xC3g", "\xE2\x82", "\xE2\x82g", "\xC1\xBF", "\xE0\x9F\xBF",
        "\xF0\x8F\xBF\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(utf8_length(text), 0) << as_utf8(text);
  }
}

TEST(Utf8, OtherBytesAreEscaped) {
  EXPECT_EQ(as_utf8("caf\xC3\xA9 \\ caf\xE9\n"), "caf\xC3\xA9 \\ caf\\xe9\n");
}

TEST(Utf8, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\tb\nc\r\a\b\v\f\x1b[2J\x7f"), "a\\tb\\nc\\r\\a\\b\\v\\f\\x1b[2J\\x7f");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J \xC2\xA0\xC3\xA9 \xE9 \\t"),
            "\\xc2\\x9b2J \xC2\xA0\xC3\xA9 \\xe9 \\t");
  EXPECT_EQ(printable(printable("\n\xE9\x1b")), printable("\n\xE9\x1b"));
}

TEST(Utf8, FurtherLinesOfAMessageStay) {
  EXPECT_EQ(printable_message("two:\n  one\n    two\nthree\n"), "two:\n  one\n    two\\nthree\\n");
}

TEST(Utf8, DrawingsHoldNoCharactersThatXmlLacks) {
  EXPECT_EQ(drawable("\xEF\xBF\xBE\xEF\xBF\xBF\xEF\xBF\xBD\x01"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\\x01");
}

}  // namespace
}  // namespace crema
