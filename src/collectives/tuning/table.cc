#include "collectives/tuning/table.h"

#include <algorithm>
#include <array>

#include "collectives/tuning/table_text.h"
#include "transport/arena/control_block.h"

namespace ronde::collectives {

namespace {

constexpr std::string_view kKind = "ranks";

struct Field {
  TableField text;
  std::uint64_t Thresholds::*value;
};

/// "However large."
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::array<Field, 5> kFields = {{
    {{"inline", 0, 56}, &Thresholds::inlined},
    {{"one_shot", 0, kMostBytes}, &Thresholds::one_shot},
    {{"staged", 0, 1 << 20}, &Thresholds::staged},
    {{"chunk", 128, 1 << 30}, &Thresholds::chunk},
    {{"stream", 0, kMostBytes}, &Thresholds::stream},
}};
static_assert(sizeof(Thresholds) == kFields.size() * sizeof(std::uint64_t), "every number of a row has a word");

std::vector<TableField> fields() {
  std::vector<TableField> all;
  for (const Field& field : kFields) {
    all.push_back(field.text);
  }
  return all;
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

Result<Table> Table::parse(std::string_view text) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<TextRow> rows, rows_of(text, kKind, transport::kMaxHostRanks));
  Table table;
  for (const TextRow& row : rows) {
    RONDE_ASSIGN_OR_RETURN(const auto numbers, numbers_of(row, fields()));
    Thresholds thresholds = built_in().of(row.count);
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      thresholds.*kFields[i].value = numbers[i].value_or(thresholds.*kFields[i].value);
    }
    table.rows_.push_back({row.count, thresholds});
  }
  if (table.rows_.empty()) {
    return built_in();
  }
  if (table.rows_.back().ranks != kAnyRanks) {
    table.rows_.push_back({kAnyRanks, built_in().of(kAnyRanks)});
  }
  return table;
}

Result<std::optional<Table>> Table::from_environment() {
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::string> text, table_text_from_environment());
  if (!text) {
    return std::optional<Table>();
  }
  Result<Table> table = parse(*text);
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
  std::string text = row_head(kKind, ranks);
  for (const Field& field : kFields) {
    text += (field.value == kFields.front().value ? " " : ", ") + std::string(field.text.name) + " " +
            std::to_string(thresholds.*field.value);
  }
  return text + "\n";
}

const Thresholds& Table::of(int ranks) const {
  return std::find_if(rows_.begin(), rows_.end() - 1, [ranks](const Row& row) { return ranks <= row.ranks; })
      ->thresholds;
}

}  // namespace ronde::collectives
