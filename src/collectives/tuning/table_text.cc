#include "collectives/tuning/table_text.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/environment.h"

namespace ronde::collectives {

namespace {

constexpr std::array<std::string_view, 2> kKinds = {"ranks", "hosts"};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Takes what stands before the separator, or all, from the front of `rest`.
std::string_view take(std::string_view& rest, std::string_view separators) {
  const std::size_t end = std::min(rest.find_first_of(separators), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trim(part);
}

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

Status wrong(std::string_view row, const std::string& what) {
  return Status::error(Code::invalid_argument, "in the row \"" + std::string(row) + "\" " + what);
}

/// The kind that a row begins with; empty: with none.
std::string_view kind_of(std::string_view row) {
  const auto* const kind = std::find_if(kKinds.begin(), kKinds.end(), [&](std::string_view each) {
    return row.starts_with(each) && row.substr(each.size()).starts_with(' ');
  });
  return kind == kKinds.end() ? std::string_view() : *kind;
}

Result<TextRow> parse_row(std::string_view text, std::string_view kind, int most) {
  TextRow row{text, 0, text};
  const std::string_view head = trim(take(row.numbers, ":").substr(kind.size()));
  std::uint64_t number = 0;
  if (head == "any") {
    row.count = kAny;
  } else if (parse_number(head, number) && number >= 1 && number <= static_cast<std::uint64_t>(most)) {
    row.count = static_cast<int>(number);
  } else {
    return wrong(text, "\"" + std::string(head) + "\" is no number of " + std::string(kind) + " from 1 to " +
                           std::to_string(most) + " and not \"any\"");
  }
  return row;
}

std::string list_of(const std::vector<TableField>& fields) {
  std::string names(fields.front().name);
  for (std::size_t i = 1; i < fields.size(); ++i) {
    names += (i + 1 == fields.size() ? " and " : ", ") + std::string(fields[i].name);
  }
  return names;
}

}  // namespace

Result<std::vector<TextRow>> rows_of(std::string_view text, std::string_view kind, int most) {
  std::vector<TextRow> rows;
  bool has_any = false;
  while (!text.empty()) {
    std::string_view line = take(text, "\n");
    line = take(line, "#");
    while (!line.empty()) {
      const std::string_view row_text = take(line, ";");
      if (row_text.empty()) {
        continue;
      }
      has_any = true;
      const std::string_view found = kind_of(row_text);
      if (found.empty()) {
        return wrong(row_text, "\"ranks NUMBER: ...\", \"hosts NUMBER: ...\" or \"any\" for the number was expected");
      }
      if (found != kind) {
        continue;
      }
      RONDE_ASSIGN_OR_RETURN(TextRow row, parse_row(row_text, kind, most));
      if (!rows.empty() && rows.back().count >= row.count) {
        return wrong(row_text, "the number of " + std::string(kind) + " is not greater than in the row before");
      }
      rows.push_back(row);
    }
  }
  if (!has_any) {
    return Status::error(Code::invalid_argument, "the table has no row");
  }
  return rows;
}

std::string row_head(std::string_view kind, int count) {
  return std::string(kind) + " " + (count == kAny ? std::string("any") : std::to_string(count)) + ":";
}

Result<std::vector<std::optional<std::uint64_t>>> numbers_of(const TextRow& row,
                                                             const std::vector<TableField>& fields) {
  std::vector<std::optional<std::uint64_t>> values(fields.size());
  std::string_view rest = row.numbers;
  while (!rest.empty()) {
    std::string_view value = take(rest, ",");
    const std::string_view name = take(value, " \t");
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const TableField& f) { return f.name == name; });
    if (field == fields.end()) {
      return wrong(row.text, "\"" + std::string(name) + "\" is none of " + list_of(fields));
    }
    std::uint64_t number = 0;
    if (!parse_number(trim(value), number) || number < field->least || number > field->most ||
        number % field->unit != 0) {
      return wrong(row.text, std::string(name) + " needs a number from " + std::to_string(field->least) + " to " +
                                 std::to_string(field->most) +
                                 (field->unit > 1 ? ", a multiple of " + std::to_string(field->unit) : std::string()));
    }
    values[static_cast<std::size_t>(field - fields.begin())] = number;
  }
  return values;
}

Result<std::string> table_text_of(const std::string& what, const std::string& given) {
  if (!kind_of(given).empty() || given.starts_with('#')) {
    return given;
  }
  std::ifstream file(given);
  if (!file) {
    return Status::error(Code::invalid_argument, what + " names the file " + given +
                                                     ", which cannot be read; a table's text begins with \"ranks\" "
                                                     "or \"hosts\"");
  }
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Result<std::optional<std::string>> table_text_from_environment() {
  const std::optional<std::string> given = environment_text("RONDE_TABLE");
  if (!given) {
    return std::optional<std::string>();
  }
  RONDE_ASSIGN_OR_RETURN(std::string text, table_text_of("RONDE_TABLE", *given));
  return std::optional<std::string>(std::move(text));
}

}  // namespace ronde::collectives
