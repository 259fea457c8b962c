#include "base/environment.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/site_settings.h"

namespace ronde {

namespace {

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

std::optional<std::string> as_it_is(const std::string& value) { return value; }

/// Horovod takes as true what is not 0 as a whole number; words are not.
bool is_true(const std::string& value) { return std::atoll(value.c_str()) != 0; }

std::optional<std::string> never_if_true(const std::string& value) {
  return is_true(value) ? std::optional<std::string>("0") : std::nullopt;
}

std::optional<std::string> one_if_true(const std::string& value) {
  return is_true(value) ? std::optional<std::string>("1") : std::nullopt;
}

/// Said there to allow start_timeline(), which is always allowed here.
std::optional<std::string> unless_dynamic(const std::string& value) {
  return value == "DYNAMIC" ? std::nullopt : std::optional<std::string>(value);
}

/// A cache of no entries means there: agree by messages each time.
std::optional<std::string> off_if_zero(const std::string& value) {
  return value == "0" ? std::optional<std::string>("0") : std::nullopt;
}

std::optional<std::string> log_level(const std::string& value) {
  std::string lower = value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return lower == "trace" ? "debug" : lower == "fatal" ? "off" : lower;
}

/// What Horovod calls a setting of ours. Scripts and the files that start them set these, with or without a launcher.
struct Forerunner {
  std::string_view name;
  const char* horovod;
  std::optional<std::string> (*translated)(const std::string&);  ///< nothing: as if not set
};

/// Of several with one name the first that says something counts.
constexpr Forerunner kForerunners[] = {
    {"RONDE_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", as_it_is},
    {"RONDE_INIT_TIMEOUT_S", "HOROVOD_START_TIMEOUT", as_it_is},
    {"RONDE_INIT_TIMEOUT_S", "HOROVOD_GLOO_TIMEOUT_SECONDS", as_it_is},
    {"RONDE_LOG_LEVEL", "HOROVOD_LOG_LEVEL", log_level},
    {"RONDE_REPLAY", "HOROVOD_CACHE_CAPACITY", off_if_zero},
    {"RONDE_STALL_S", "HOROVOD_STALL_CHECK_DISABLE", never_if_true},
    {"RONDE_STALL_S", "HOROVOD_STALL_CHECK_TIME_SECONDS", as_it_is},
    {"RONDE_TIMELINE", "HOROVOD_TIMELINE", unless_dynamic},
    {"RONDE_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES", one_if_true},
    {"RONDE_TIMEOUT_S", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", as_it_is},
};

struct Setting {
  std::string text;
  std::string said_by;  ///< for errors
};

std::string variable(const char* name) { return std::string("the environment variable ") + name; }

std::optional<Setting> find_variable(const char* name) {
  if (std::optional<std::string> text = get(name)) {
    return Setting{std::move(*text), variable(name)};
  }
  for (const Forerunner& forerunner : kForerunners) {
    if (forerunner.name != name) {
      continue;
    }
    if (const std::optional<std::string> value = get(forerunner.horovod)) {
      if (std::optional<std::string> text = forerunner.translated(*value)) {
        return Setting{std::move(*text), variable(forerunner.horovod)};
      }
    }
  }
  return std::nullopt;
}

std::optional<Setting> find(const char* name) {
  std::optional<Setting> said = find_variable(name);
  if (said || !site_settings()) {
    return said;
  }
  std::optional<std::string> text = site_settings().value().find(name);
  return text ? Setting{std::move(*text), std::string(name) + " in " + site_settings().value().path()}
              : std::optional<Setting>();
}

Status malformed(const Setting& setting, const std::string& expected) {
  return Status::error(Code::invalid_argument, setting.said_by + " is '" + setting.text + "'; expected " + expected);
}

}  // namespace

bool environment_says(const char* name) { return find_variable(name).has_value(); }

std::optional<std::string> environment_text(const char* name) {
  std::optional<Setting> setting = find(name);
  return setting ? std::optional<std::string>(std::move(setting->text)) : std::nullopt;
}

Result<std::optional<double>> environment_number(const char* name, double minimum) {
  const std::optional<Setting> setting = find(name);
  if (!setting) {
    return std::optional<double>();
  }
  const std::string& text = setting->text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < minimum) {
    std::string least = std::to_string(minimum);
    least.erase(least.find('.') + 2);
    return malformed(*setting, "a number of at least " + least);
  }
  return std::optional<double>(value);
}

Result<std::optional<std::int64_t>> environment_integer(const char* name, std::int64_t minimum, std::int64_t maximum) {
  const std::optional<Setting> setting = find(name);
  if (!setting) {
    return std::optional<std::int64_t>();
  }
  const std::string& text = setting->text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < minimum || value > maximum) {
    return malformed(*setting, "a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return std::optional<std::int64_t>(value);
}

}  // namespace ronde
