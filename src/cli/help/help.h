// How --help looks: CLI11's layout with a usage line of our own, and options without its remarks on types.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>

namespace ronde::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  /// `usage` is what stands behind the command's name: "run -n N [OPTIONS] -- COMMAND [ARGUMENTS...]".
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(26); }

  std::string make_usage(const CLI::App*, std::string) const override { return "\nUsage: ronde " + usage_ + "\n"; }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    std::string text = type.empty() ? "" : " " + type.substr(0, type.find(':'));
    if (!option->get_default_str().empty()) {
      text += " (" + option->get_default_str() + ")";
    }
    return text;
  }

 private:
  std::string usage_;
};

}  // namespace ronde::cli
