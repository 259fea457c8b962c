// What plots have in common: their size, an axis, lines of the grid.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "cli/measuring/report/format.h"

namespace ronde::cli {

inline constexpr double kPlotWidth = 720;
inline constexpr double kPlotHeight = 440;
inline constexpr double kPlotLeft = 80;
inline constexpr double kPlotRight = 24;
inline constexpr double kPlotTop = 44;
inline constexpr double kPlotBottom = 56;

/// A logarithmic axis from the power below the least to the power above the greatest value.
struct LogAxis {
  LogAxis(double axis_base, double least, double greatest, double from_pixel, double to_pixel)
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

inline std::string svg_escaped(const std::string& text) {
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

/// Up to the title. Classes: g of the grid, m of a line, r of a band.
inline std::string svg_head(const std::string& title) {
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      kPlotWidth, kPlotHeight);
  svg +=
      "<style>.g{stroke:#ddd}.m{stroke:#1f5fa8;stroke-width:2;fill:none}.r{fill:#1f5fa8;opacity:.2}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  return svg + format("<text x=\"%g\" y=\"24\" font-size=\"15\">%s</text>\n", kPlotLeft, svg_escaped(title).c_str());
}

/// A line of the grid and its label below.
inline std::string svg_upright(double at, const std::string& label) {
  return format("<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>", at, kPlotTop, kPlotHeight - kPlotBottom) +
         format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", at, kPlotHeight - kPlotBottom + 18,
                label.c_str());
}

/// A line of the grid and its label beside.
inline std::string svg_level(double at, const std::string& label) {
  return format("<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>", kPlotLeft, at, kPlotWidth - kPlotRight) +
         format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kPlotLeft - 8, at + 4, label.c_str());
}

/// What the axes are, and the end.
inline std::string svg_foot(const std::string& text) {
  return format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n</svg>\n",
                (kPlotLeft + kPlotWidth - kPlotRight) / 2, kPlotHeight - 14, text.c_str());
}

}  // namespace ronde::cli
