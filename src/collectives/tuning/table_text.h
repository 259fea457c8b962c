// Table text: rows of numbers by how many ranks or hosts there are, as RONDE_TABLE has them. Rows end with a line or a
// semicolon; # begins a comment.
//
//     ranks 2: inline 56, one_shot 8192
//     hosts any: one_turn 32768, turn 2
//
// Rows of each kind stand in ascending order.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ronde::collectives {

/// The count of the row for what is more than any other row's.
inline constexpr int kAny = std::numeric_limits<int>::max();

/// One row of a text, which must outlive it.
struct TextRow {
  std::string_view text;     ///< all of it, for errors
  int count = 0;             ///< kAny for "any"
  std::string_view numbers;  ///< what follows the colon
};

/// Rows of one kind, "ranks" or "hosts", which counts up to `most`. INVALID_ARGUMENT with the row and what is wrong in
/// it, or if there is no row of any kind.
Result<std::vector<TextRow>> rows_of(std::string_view text, std::string_view kind, int most);

/// "ranks 2:"
std::string row_head(std::string_view kind, int count);

/// What a row may say.
struct TableField {
  std::string_view name;
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  std::uint64_t unit = 1;  ///< it is a multiple of
};

/// The values of a row by field, none for what it does not say.
Result<std::vector<std::optional<std::uint64_t>>> numbers_of(const TextRow& row, const std::vector<TableField>& fields);

/// The text of a table that people give: itself if it begins with "ranks", "hosts" or a comment, else that of the file
/// of this path. `what` they have given it by, for errors.
Result<std::string> table_text_of(const std::string& what, const std::string& given);

/// The same of RONDE_TABLE; none if it is not set. The error names the variable.
Result<std::optional<std::string>> table_text_from_environment();

}  // namespace ronde::collectives
