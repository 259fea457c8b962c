#include "launch/rank_output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ronde::launch {

namespace {

constexpr std::array<const char*, 2> kStreamNames = {"stdout", "stderr"};

bool lead_to_one_place(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

LineMixer make_mixer(int fd, bool prefix) {
  const char* const kind = ::getenv("TERM");
  const char* const no_color = ::getenv("NO_COLOR");
  const bool terminal = ::isatty(fd) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
  return LineMixer({.terminal = terminal,
                    .prefix = prefix,
                    .color = terminal && (no_color == nullptr || *no_color == '\0'),
                    .live_rank = 0});
}

Status make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return Status::from_errno("cannot make the folder '" + path + "'", errno);
  }
  return {};
}

void write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return;  // a full disk costs the copy, not the job
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
}

}  // namespace

Result<std::unique_ptr<RankOutput>> RankOutput::open(std::vector<RankStart>& starts,
                                                     const RankOutputSettings& settings) {
  std::unique_ptr<RankOutput> output(new RankOutput(starts.size() == 1));
  output->make_places(settings);
  if (starts.size() == 1 && settings.folder.empty()) {
    return output;
  }
  if (!settings.folder.empty()) {
    RONDE_RETURN_IF_ERROR(make_folder(settings.folder));
  }
  for (RankStart& start : starts) {
    for (const int stream : {0, 1}) {
      RONDE_RETURN_IF_ERROR(output->make_source(start, stream, settings));
    }
  }
  return output;
}

Result<std::unique_ptr<RankOutput>> RankOutput::open_fed(int ranks, const RankOutputSettings& settings) {
  std::unique_ptr<RankOutput> output(new RankOutput(ranks == 1));
  output->make_places(settings);
  if (!settings.folder.empty()) {
    RONDE_RETURN_IF_ERROR(make_folder(settings.folder));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int stream : {0, 1}) {
      Source source;
      source.rank = rank;
      source.stream = stream;
      RONDE_RETURN_IF_ERROR(output->add_source(std::move(source), settings));
    }
  }
  return output;
}

void RankOutput::make_places(const RankOutputSettings& settings) {
  places_.push_back({make_mixer(STDOUT_FILENO, settings.prefix), {}});
  if (!lead_to_one_place(STDOUT_FILENO, STDERR_FILENO)) {
    places_.push_back({make_mixer(STDERR_FILENO, settings.prefix), {}});
    place_of_[1] = 1;
  }
}

Status RankOutput::make_source(RankStart& start, int stream, const RankOutputSettings& settings) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Status::from_errno("pipe", errno);
  }
  Source source;
  source.rank = start.rank;
  source.stream = stream;
  source.reader.reset(ends[0]);
  (stream == 0 ? start.output : start.error).reset(ends[1]);
  // Only our end: O_NONBLOCK on the other would surprise the ranks.
  ::fcntl(ends[0], F_SETFL, O_RDONLY | O_NONBLOCK);
  return add_source(std::move(source), settings);
}

Status RankOutput::add_source(Source source, const RankOutputSettings& settings) {
  source.place = place_of_[source.stream];
  if (!settings.folder.empty()) {
    const std::string folder = settings.folder + "/rank." + std::to_string(source.rank);
    RONDE_RETURN_IF_ERROR(make_folder(folder));
    const std::string path = folder + "/" + kStreamNames[static_cast<std::size_t>(source.stream)];
    source.file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!source.file.is_open()) {
      return Status::from_errno("cannot write the file '" + path + "'", errno);
    }
  }
  sources_.push_back(std::move(source));
  return {};
}

std::vector<int> RankOutput::readers() const {
  std::vector<int> readers;
  for (const Source& source : sources_) {
    readers.push_back(source.reader.get());
  }
  return readers;
}

void RankOutput::watch(std::vector<pollfd>& entries) {
  for (const Source& source : sources_) {
    if (source.reader.is_open() && places_[source.place].writer.has_room()) {
      entries.push_back({source.reader.get(), POLLIN, 0});
    }
  }
  for (const Place& place : places_) {
    if (place.writer.waiting_fd() >= 0) {
      entries.push_back({place.writer.waiting_fd(), POLLOUT, 0});
    }
  }
}

void RankOutput::take(const std::vector<pollfd>& entries, Nanoseconds now) {
  for (Source& source : sources_) {
    const auto ready = [&](const pollfd& entry) {
      return entry.fd == source.reader.get() && (entry.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    };
    if (source.reader.is_open() && std::any_of(entries.begin(), entries.end(), ready)) {
      read(source, now);
    }
  }
  for (Place& place : places_) {
    place.mixer.flush(now);
  }
  push();
}

/// One gulp; what remains is seen by the next poll, so that no rank holds up the others.
void RankOutput::read(Source& source, Nanoseconds now) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(source.reader.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    close(source);
    return;
  }
  take_text(source, {buffer.data(), static_cast<std::size_t>(count)}, now);
}

void RankOutput::take_text(Source& source, std::string_view text, Nanoseconds now) {
  Place& place = places_[source.place];
  if (source.file.is_open()) {
    write_whole(source.file.get(), text);
  }
  if (raw_) {
    place.writer.put(source.stream == 0 ? STDOUT_FILENO : STDERR_FILENO, std::string(text));
  } else {
    place.mixer.take(source.rank, source.stream, text, now);
  }
}

void RankOutput::close(Source& source) {
  source.is_open = false;
  source.reader.reset();
  source.file.reset();
  places_[source.place].mixer.end(source.rank, source.stream);
}

RankOutput::Source* RankOutput::source_of(int rank, int stream) {
  const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) {
    return source.rank == rank && source.stream == stream && source.is_open;
  });
  return found == sources_.end() ? nullptr : &*found;
}

void RankOutput::feed(int rank, int stream, std::string_view text, Nanoseconds now) {
  if (Source* const source = source_of(rank, stream)) {
    take_text(*source, text, now);
    push();
  }
}

void RankOutput::finish(int rank, int stream) {
  if (Source* const source = source_of(rank, stream)) {
    close(*source);
    push();
  }
}

bool RankOutput::has_room() const {
  return std::all_of(places_.begin(), places_.end(), [](const Place& place) { return place.writer.has_room(); });
}

void RankOutput::push() {
  for (Place& place : places_) {
    for (Piece& piece : place.mixer.take_output()) {
      place.writer.put(piece.stream == 0 ? STDOUT_FILENO : STDERR_FILENO, std::move(piece.text));
    }
    lost_reader_ |= place.writer.push() == EPIPE;
  }
}

Nanoseconds RankOutput::next_deadline() const {
  Nanoseconds next = kNever;
  for (const Place& place : places_) {
    next = std::min(next, place.mixer.next_deadline());
  }
  return next;
}

void RankOutput::announce(const std::string& line) {
  places_[place_of_[1]].mixer.announce(1, line);
  push();
}

bool RankOutput::is_ended() const {
  return std::none_of(sources_.begin(), sources_.end(), [](const Source& source) { return source.is_open; });
}

void RankOutput::end_all(Nanoseconds now) {
  for (Source& source : sources_) {
    if (source.reader.is_open()) {
      read(source, now);
    }
    if (source.is_open) {
      close(source);
    }
  }
  push();
}

bool RankOutput::is_written() const {
  return std::all_of(places_.begin(), places_.end(), [](const Place& place) { return place.writer.is_empty(); });
}

}  // namespace ronde::launch
