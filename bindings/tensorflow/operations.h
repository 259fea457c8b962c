// The operations as TensorFlow's graphs know them: inputs, outputs, attributes and shapes. kernels.h says what they do.
#pragma once

#include <string>

namespace ronde::tf {

/// Begins a request whose results have the shapes of its tensors.
inline constexpr char kStart[] = "RondeStart";
/// Ends any number of them.
inline constexpr char kDone[] = "RondeDone";
/// Begins a request whose results have shapes that are known at its end.
inline constexpr char kStartRows[] = "RondeStartRows";
/// Ends one of them.
inline constexpr char kDoneRows[] = "RondeDoneRows";
/// Says who this process is when it runs.
inline constexpr char kTopology[] = "RondeTopology";

/// Registers them. Returns what went wrong, empty if nothing did.
std::string register_operations();

}  // namespace ronde::tf
