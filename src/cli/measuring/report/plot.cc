#include "cli/measuring/report/plot.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "cli/measuring/report/format.h"
#include "cli/measuring/report/svg.h"
#include "cli/measuring/workload/sizes.h"

namespace ronde::cli {

namespace {

/// 0.5, 20, 1500 microseconds as people write them.
std::string time_text(double microseconds) {
  if (microseconds >= 1e6) return format("%g s", microseconds * 1e-6);
  if (microseconds >= 1e3) return format("%g ms", microseconds * 1e-3);
  return microseconds >= 1 ? format("%g us", microseconds) : format("%g ns", microseconds * 1e3);
}

std::string grid(const LogAxis& x, const LogAxis& y) {
  std::string svg;
  const double step = std::max(1.0, std::ceil((x.high - x.low) / 10));  // ten labels find room
  for (double power = x.low; power <= x.high; power += step) {
    svg += svg_upright(x.pixel(std::pow(2, power)),
                       power < 0 ? "" : size_text(std::uint64_t{1} << static_cast<int>(power)));
  }
  for (double power = y.low; power <= y.high; ++power) {
    svg += svg_level(y.pixel(std::pow(10, power)), time_text(std::pow(10, power)));
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
  std::string svg = svg_head(title);
  if (!shown.empty()) {
    double least = shown.front().summary.min_us;
    double greatest = least;
    for (const Measurement& each : shown) {
      least = std::min(least, each.summary.min_us);
      greatest = std::max(greatest, each.summary.p99_us);
    }
    const LogAxis x(2, static_cast<double>(shown.front().bytes), static_cast<double>(shown.back().bytes), kPlotLeft,
                    kPlotWidth - kPlotRight);
    const LogAxis y(10, least, greatest, kPlotHeight - kPlotBottom, kPlotTop);
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
  return svg + svg_foot("bytes; line: median, band: fastest call to 99th percentile");
}

std::string write_plot(const std::string& path, const std::string& title, const std::vector<Measurement>& sweep) {
  std::ofstream file(path);
  file << plot_svg(title, sweep);
  file.close();
  return file ? "" : "cannot write the plot to '" + path + "': " + std::strerror(errno);
}

}  // namespace ronde::cli
