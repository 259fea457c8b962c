#include "collectives/tuning/host_table.h"

#include <algorithm>
#include <array>

#include "collectives/tuning/table_text.h"

namespace ronde::collectives {

namespace {

using messages::MessageLimits;

constexpr std::string_view kHostRow = "hosts";
constexpr int kMostHosts = 1 << 20;
/// Of one tensor in a message.
constexpr std::uint64_t kMostAtOnce = std::uint64_t{4} << 20;

struct HostField {
  TableField text;
  std::size_t MessageLimits::*value;
};

constexpr std::array<HostField, 7> kHostFields = {{
    {{"one_turn", 0, kMostAtOnce}, &MessageLimits::one_turn},
    {{"gathered", 0, std::uint64_t{1} << 30}, &MessageLimits::gathered},
    {{"turn", 0, messages::kEachWithEach}, &MessageLimits::turn},
    {{"large_turn", 0, messages::kEachWithEach}, &MessageLimits::large_turn},
    {{"direct", 0, std::uint64_t{1} << 30}, &MessageLimits::direct},
    {{"ring", 0, std::uint64_t{1} << 40}, &MessageLimits::ring},
    {{"chunk", 128, kMostAtOnce, 128}, &MessageLimits::chunk},
}};

constexpr std::size_t kLargeTurn = 3;  ///< of them
static_assert(kHostFields[kLargeTurn].value == &MessageLimits::large_turn);

/// Up to so many hosts each sends to each of them in one turn; by the planner's model.
constexpr int kFewHosts = 8;
constexpr std::size_t kLargeTurnOfMany = 2;

std::vector<TableField> host_fields() {
  std::vector<TableField> all;
  for (const HostField& field : kHostFields) {
    all.push_back(field.text);
  }
  return all;
}

}  // namespace

HostTable HostTable::built_in() {
  HostTable table;
  table.rows_ = {
      {2, {}},
      {4, {.one_turn = std::size_t{16} << 10}},
      {kAny, {.one_turn = std::size_t{8} << 10}},
  };
  return table;
}

Result<HostTable> HostTable::parse(std::string_view text) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<TextRow> rows, rows_of(text, kHostRow, kMostHosts));
  HostTable table;
  for (const TextRow& row : rows) {
    RONDE_ASSIGN_OR_RETURN(const auto numbers, numbers_of(row, host_fields()));
    MessageLimits limits = built_in().of(row.count);
    for (std::size_t i = 0; i < kHostFields.size(); ++i) {
      limits.*kHostFields[i].value = numbers[i].value_or(limits.*kHostFields[i].value);
    }
    table.rows_.push_back({row.count, limits, numbers[kLargeTurn].has_value()});
  }
  if (table.rows_.empty()) {
    return built_in();
  }
  if (table.rows_.back().hosts != kAny) {  // those that are built in for more
    const int last = table.rows_.back().hosts;
    for (const Row& row : built_in().rows_) {
      if (row.hosts > last) {
        table.rows_.push_back(row);
      }
    }
  }
  return table;
}

Result<HostTable> HostTable::from_environment() {
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::string> text, table_text_from_environment());
  Result<HostTable> table = text ? parse(*text) : built_in();
  return table ? std::move(table) : table.status().with_context("RONDE_TABLE");
}

std::string HostTable::row_text(int hosts, const MessageLimits& limits) {
  std::string text = row_head(kHostRow, hosts);
  for (const HostField& field : kHostFields) {
    text += (field.value == kHostFields.front().value ? " " : ", ") + std::string(field.text.name) + " " +
            std::to_string(limits.*field.value);
  }
  return text + "\n";
}

MessageLimits HostTable::of(int hosts) const {
  const Row& row =
      *std::find_if(rows_.begin(), rows_.end() - 1, [hosts](const Row& each) { return hosts <= each.hosts; });
  MessageLimits limits = row.limits;
  if (!row.has_large_turn) {
    limits.large_turn = hosts > kFewHosts ? kLargeTurnOfMany : messages::kEachWithEach;
  }
  return limits;
}

}  // namespace ronde::collectives
