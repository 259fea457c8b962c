#include "observe/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ronde::observe {
namespace {

TEST(JsonText, WhatIsTextComesBackAsItWas) {
  for (const std::string& text :
       {std::string(), std::string("layer1.weight"), std::string("a\"b\\c\n\t\x01"),
        std::string("gewicht \xc3\xbc \xe2\x82\xac \xf0\x9f\x92\x83"), std::string("a\0b", 3)}) {
    EXPECT_EQ(nlohmann::json::parse(json_text(text)).get<std::string>(), text);
  }
}

TEST(JsonText, WhatIsNotUtf8BecomesTheReplacementCharacter) {
  const std::string replacement = "\xef\xbf\xbd";
  for (const std::string& bytes :
       {std::string("\x80"), std::string("\xff"), std::string("\xc3"), std::string("\xe2\x82"), std::string("\xc0\xaf"),
        std::string("\xed\xa0\x80"), std::string("\xf5\x80\x80\x80")}) {
    const std::string parsed = nlohmann::json::parse(json_text("x" + bytes + "y")).get<std::string>();
    EXPECT_EQ(parsed.substr(0, 1 + replacement.size()), "x" + replacement);
    EXPECT_EQ(parsed.back(), 'y');
  }
}

}  // namespace
}  // namespace ronde::observe
