// The processes that this one descends from, as far as they can be seen.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace ronde {

/// The folder of the program of the nearest ancestor whose file name has one of these words in it, as a launcher's has;
/// shells and interpreters may be between. None if there is no such, or it is another user's.
std::optional<std::string> folder_of_ancestor(std::initializer_list<std::string_view> words);

}  // namespace ronde
