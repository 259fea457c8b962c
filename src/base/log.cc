#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "base/environment.h"

namespace ronde {

namespace {

std::mutex& sink_mutex() {
  static auto* const mutex = new std::mutex;  // never destroyed, nor is the sink: engines log while the process exits
  return *mutex;
}

LogSink& sink() {
  static auto* const current = new LogSink;
  return *current;
}

std::atomic<int>& threshold() {
  static std::atomic<int> level = [] {
    const std::optional<std::string> text = environment_text("RONDE_LOG_LEVEL");
    return static_cast<int>(text ? parse_log_level(*text) : LogLevel::warning);
  }();
  return level;
}

void write_to_stderr(LogLevel level, int rank, const std::string& message) {
  std::string line = "[ronde rank " + std::to_string(rank) + "] ";
  line += log_level_name(level);
  line += ": " + message + "\n";
  // One write, so that lines of several ranks do not mix; a closed standard error is not our error.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

LogLevel parse_log_level(std::string_view text) {
  for (LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::error, LogLevel::off}) {
    if (text == log_level_name(level)) {
      return level;
    }
  }
  return LogLevel::warning;
}

std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
    case LogLevel::off: return "off";
  }
  return "warning";
}

void set_log_sink(LogSink new_sink) {
  std::lock_guard lock(sink_mutex());
  sink() = std::move(new_sink);
}

void set_log_level(LogLevel level) { threshold().store(static_cast<int>(level), std::memory_order_relaxed); }

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= threshold().load(std::memory_order_relaxed) && level != LogLevel::off;
}

void log(LogLevel level, int rank, const std::string& message) {
  if (!log_enabled(level)) {
    return;
  }
  std::lock_guard lock(sink_mutex());
  if (sink()) {
    sink()(level, rank, message);
  } else {
    write_to_stderr(level, rank, message);
  }
}

}  // namespace ronde
