#include "launch/carried_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace ronde::launch {

namespace {

constexpr std::size_t kChunkBytes = 1 << 20;
constexpr std::size_t kMaxNameBytes = 200;

bool is_fine(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace

/// A frame: the name, a 0, and bytes that come behind those of the file so far.
Status CarriedFolder::send(FramePipe& frames) {
  std::error_code failure;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_, failure)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (entry.is_regular_file(ignored) && is_fine(name) && !name.ends_with(".part") && known_.insert(name).second) {
      names.push_back(name);
    }
  }
  if (failure) {
    return Status::error(Code::system_error, "cannot read the folder '" + path_ + "': " + failure.message());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    std::string head = name;
    head += '\0';
    std::string chunk(kChunkBytes, '\0');
    bool is_first = true;
    while (file && (is_first || file.peek() != std::ifstream::traits_type::eof())) {
      file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      frames.put(FrameKind::file, head, {chunk.data(), static_cast<std::size_t>(file.gcount())});
      is_first = false;
    }
  }
  return {};
}

Status CarriedFolder::take(std::string_view bytes) {
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos || !is_fine(bytes.substr(0, end))) {
    return Status::error(Code::internal, "a file with an impossible name came from another host");
  }
  const std::string name(bytes.substr(0, end));
  const bool is_first = known_.insert(name).second;
  const std::string path = path_ + "/" + name;
  std::ofstream file(path, std::ios::binary | (is_first ? std::ios::trunc : std::ios::app));
  const std::string_view content = bytes.substr(end + 1);
  if (!file || !file.write(content.data(), static_cast<std::streamsize>(content.size())).flush()) {
    return Status::error(Code::system_error, "cannot write the file '" + path + "'");
  }
  return {};
}

}  // namespace ronde::launch
