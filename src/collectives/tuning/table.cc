#include "collectives/tuning/table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/environment.h"
#include "transport/arena/control_block.h"

namespace ronde::collectives {

namespace {

struct Field {
  std::string_view name;
  std::uint64_t Thresholds::*value;
  std::uint64_t least;
  std::uint64_t most;
};

/// "However large."
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::array<Field, 5> kFields = {{
    {"inline", &Thresholds::inlined, 0, 56},
    {"one_shot", &Thresholds::one_shot, 0, kMostBytes},
    {"staged", &Thresholds::staged, 0, 1 << 20},
    {"chunk", &Thresholds::chunk, 128, 1 << 30},
    {"stream", &Thresholds::stream, 0, kMostBytes},
}};
static_assert(sizeof(Thresholds) == kFields.size() * sizeof(std::uint64_t), "every number of a row has a word");

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

}  // namespace

Table Table::built_in() {
  // One shot fetches (p - 1) N bytes and waits once, two phases fetch 2 (p - 1)/p N and wait twice: for two ranks the
  // same bytes, for more its limit falls with p. Chunks get smaller for more ranks because the staging of all shares
  // the caches.
  // Measured on the machine of kReference (derived_table.h); another machine's numbers go in proportion to these.
  Table table;
  table.rows_ = {
      {2, {.one_shot = kMostBytes, .chunk = 262144}},
      {4, {.one_shot = 8192}},
      {8, {.one_shot = 4096}},
      {kAnyRanks, {.one_shot = 2048, .staged = 65536, .chunk = 65536}},
  };
  return table;
}

Result<Table::Row> Table::parse_row(std::string_view text) {
  std::string_view rest = text;
  std::string_view head = take(rest, ":");
  if (!head.starts_with("ranks ")) {
    return wrong(text, "\"ranks NUMBER: ...\" or \"ranks any: ...\" was expected");
  }
  head = trim(head.substr(6));
  Row row;
  std::uint64_t number = 0;
  if (head == "any") {
    row.ranks = kAnyRanks;
  } else if (parse_number(head, number) && number >= 1 && number <= transport::kMaxHostRanks) {
    row.ranks = static_cast<int>(number);
  } else {
    return wrong(text, "\"" + std::string(head) + "\" is no number of ranks from 1 to " +
                           std::to_string(transport::kMaxHostRanks) + " and not \"any\"");
  }
  row.thresholds = built_in().of(row.ranks);
  while (!rest.empty()) {
    std::string_view value = take(rest, ",");
    const std::string_view name = take(value, " \t");
    const auto* const field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.name == name; });
    if (field == kFields.end()) {
      return wrong(text, "\"" + std::string(name) + "\" is none of inline, one_shot, staged, chunk and stream");
    }
    if (!parse_number(trim(value), number) || number < field->least || number > field->most) {
      return wrong(text, std::string(name) + " needs a number of bytes from " + std::to_string(field->least) + " to " +
                             std::to_string(field->most));
    }
    row.thresholds.*field->value = number;
  }
  return row;
}

Result<Table> Table::parse(std::string_view text) {
  Table table;
  while (!text.empty()) {
    std::string_view line = take(text, "\n");
    line = take(line, "#");
    while (!line.empty()) {
      const std::string_view row_text = take(line, ";");
      if (row_text.empty()) {
        continue;
      }
      RONDE_ASSIGN_OR_RETURN(Row row, parse_row(row_text));
      if (!table.rows_.empty() && table.rows_.back().ranks >= row.ranks) {
        return wrong(row_text, "the number of ranks is not greater than in the row before");
      }
      table.rows_.push_back(row);
    }
  }
  if (table.rows_.empty()) {
    return Status::error(Code::invalid_argument, "the table has no row");
  }
  if (table.rows_.back().ranks != kAnyRanks) {
    table.rows_.push_back({kAnyRanks, built_in().of(kAnyRanks)});
  }
  return table;
}

Result<std::optional<Table>> Table::from_environment() {
  const std::optional<std::string> value = environment_text("RONDE_TABLE");
  if (!value) {
    return std::optional<Table>();
  }
  std::string text = *value;
  if (!text.starts_with("ranks")) {
    std::ifstream file(text);
    if (!file) {
      return Status::error(Code::invalid_argument, "RONDE_TABLE names the file " + text +
                                                       ", which cannot be read; a table's text begins with \"ranks\"");
    }
    std::ostringstream content;
    content << file.rdbuf();
    text = content.str();
  }
  Result<Table> table = parse(text);
  if (!table) {
    return table.status().with_context("RONDE_TABLE");
  }
  return std::optional<Table>(std::move(*table));
}

std::string Table::text() const {
  std::string text;
  for (const Row& row : rows_) {
    text += row_text(row.ranks, row.thresholds);
  }
  return text;
}

std::string Table::row_text(int ranks, const Thresholds& thresholds) {
  std::string text = "ranks " + (ranks == kAnyRanks ? std::string("any") : std::to_string(ranks)) + ":";
  for (const Field& field : kFields) {
    text += (field.name == kFields.front().name ? " " : ", ") + std::string(field.name) + " " +
            std::to_string(thresholds.*field.value);
  }
  return text + "\n";
}

const Thresholds& Table::of(int ranks) const {
  return std::find_if(rows_.begin(), rows_.end() - 1, [ranks](const Row& row) { return ranks <= row.ranks; })
      ->thresholds;
}

}  // namespace ronde::collectives
