// A picture of a sweep: time over size, both logarithmic, as an SVG file.
//
// Written by hand: the command `ronde` must need no shared library but glibc's, and what C++ offers for plots draws
// through gnuplot at run time (Matplot++, gnuplot-iostream) or is a large shared library (PLplot, Cairo under one). One
// plot with two axes is less text than linking any of them would be. The plots of benchmarks/peers use Matplotlib.
#pragma once

#include <string>
#include <vector>

#include "cli/measuring/report/report.h"

namespace ronde::cli {

/// "allreduce float32, in place, 2 ranks, by name".
std::string plot_title(const BenchOptions& options, int ranks);

/// The text of the picture: the median, and around it the range from the fastest call to the 99th percentile. Sizes and
/// times of 0 have no place on a logarithmic axis and are left out.
std::string plot_svg(const std::string& title, const std::vector<Measurement>& sweep);

/// Writes it to `path`. Why that failed, as a sentence; empty on success.
std::string write_plot(const std::string& path, const std::string& title, const std::vector<Measurement>& sweep);

}  // namespace ronde::cli
