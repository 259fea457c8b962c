// The one place where messages leave the library. Lines go to a sink that the user may replace; the default writes
// "[ronde rank 2] warning: ..." to standard error. Nothing else in the library prints.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ronde {

enum class LogLevel { debug = 0, info = 1, warning = 2, error = 3, off = 4 };

/// "debug", "info", "warning", "error", "off"; anything else is warning.
LogLevel parse_log_level(std::string_view text);
std::string_view log_level_name(LogLevel level);

/// Called from any thread, one call at a time; must not call back into Ronde.
using LogSink = std::function<void(LogLevel level, int rank, const std::string& message)>;

/// Replaces the process's sink; an empty one restores the default.
void set_log_sink(LogSink sink);
/// Messages below this level are dropped before they are built. Default: RONDE_LOG_LEVEL, else warning.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log(LogLevel level, int rank, const std::string& message);

}  // namespace ronde
