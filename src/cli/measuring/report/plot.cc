#include "cli/measuring/report/plot.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "cli/measuring/report/format.h"
#include "cli/measuring/workload/sizes.h"

namespace ronde::cli {

namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 440;
constexpr double kLeft = 80;
constexpr double kRight = 24;
constexpr double kTop = 44;
constexpr double kBottom = 56;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char each : text) {
    switch (each) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      default: result += each;
    }
  }
  return result;
}

/// A logarithmic axis from the power below the least to the power above the greatest value.
struct Axis {
  Axis(double axis_base, double least, double greatest, double from_pixel, double to_pixel)
      : base(axis_base),
        low(std::floor(std::log(least) / std::log(axis_base) + 1e-9)),
        high(std::max(low + 1, std::ceil(std::log(greatest) / std::log(axis_base) - 1e-9))),
        from(from_pixel),
        to(to_pixel) {}

  double pixel(double value) const {
    return from + (std::log(value) / std::log(base) - low) / (high - low) * (to - from);
  }

  double base;
  double low;  ///< exponents of `base`
  double high;
  double from;
  double to;
};

/// 0.5, 20, 1500 microseconds as people write them.
std::string time_text(double microseconds) {
  if (microseconds >= 1e6) return format("%g s", microseconds * 1e-6);
  if (microseconds >= 1e3) return format("%g ms", microseconds * 1e-3);
  return microseconds >= 1 ? format("%g us", microseconds) : format("%g ns", microseconds * 1e3);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  const double step = std::max(1.0, std::ceil((x.high - x.low) / 10));  // ten labels find room
  for (double power = x.low; power <= x.high; power += step) {
    const double at = x.pixel(std::pow(2, power));
    svg += format("<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>", at, kTop, kHeight - kBottom);
    svg += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", at, kHeight - kBottom + 18,
                  power < 0 ? "" : size_text(std::uint64_t{1} << static_cast<int>(power)).c_str());
  }
  for (double power = y.low; power <= y.high; ++power) {
    const double at = y.pixel(std::pow(10, power));
    svg += format("<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>", kLeft, at, kWidth - kRight);
    svg += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 8, at + 4,
                  time_text(std::pow(10, power)).c_str());
  }
  return svg;
}

}  // namespace

std::string plot_title(const BenchOptions& options, int ranks) {
  const std::string head = table_head(options, ranks);
  return head.substr(0, head.find(';'));
}

std::string plot_svg(const std::string& title, const std::vector<Measurement>& sweep) {
  std::vector<Measurement> shown;
  std::copy_if(sweep.begin(), sweep.end(), std::back_inserter(shown),
               [](const Measurement& each) { return each.bytes > 0 && each.summary.min_us > 0; });
  std::sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      kWidth, kHeight);
  svg +=
      "<style>.g{stroke:#ddd}.m{stroke:#1f5fa8;stroke-width:2;fill:none}.r{fill:#1f5fa8;opacity:.2}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += format("<text x=\"%g\" y=\"24\" font-size=\"15\">%s</text>\n", kLeft, escaped(title).c_str());
  if (!shown.empty()) {
    double least = shown.front().summary.min_us;
    double greatest = least;
    for (const Measurement& each : shown) {
      least = std::min(least, each.summary.min_us);
      greatest = std::max(greatest, each.summary.p99_us);
    }
    const Axis x(2, static_cast<double>(shown.front().bytes), static_cast<double>(shown.back().bytes), kLeft,
                 kWidth - kRight);
    const Axis y(10, least, greatest, kHeight - kBottom, kTop);
    svg += grid(x, y);
    std::string range;
    std::string back;
    std::string median;
    for (const Measurement& each : shown) {
      const double at = x.pixel(static_cast<double>(each.bytes));
      range += format("%.1f,%.1f ", at, y.pixel(each.summary.min_us));
      back.insert(0, format("%.1f,%.1f ", at, y.pixel(each.summary.p99_us)));
      median += format("%.1f,%.1f ", at, y.pixel(each.summary.median_us));
      svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#1f5fa8\"><title>%s: %.2f us</title></circle>\n",
                    at, y.pixel(each.summary.median_us), size_text(each.bytes).c_str(), each.summary.median_us);
    }
    svg +=
        "<polygon class=\"r\" points=\"" + range + back + "\"/>\n<polyline class=\"m\" points=\"" + median + "\"/>\n";
  }
  svg += format(
      "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">bytes; line: median, band: fastest call to 99th "
      "percentile</text>\n</svg>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 14);
  return svg;
}

std::string write_plot(const std::string& path, const std::string& title, const std::vector<Measurement>& sweep) {
  std::ofstream file(path);
  file << plot_svg(title, sweep);
  file.close();
  return file ? "" : "cannot write the plot to '" + path + "': " + std::strerror(errno);
}

}  // namespace ronde::cli
