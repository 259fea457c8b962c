// What an operation's node says of its request: read once, when TensorFlow makes the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ronde/ronde.h>

#include "tf_c_api.h"

namespace ronde::tf {

/// The attributes of a request.
struct Attributes {
  std::string name;  ///< empty: an unnamed call
  ronde_op op = RONDE_ALLREDUCE;
  ronde_reduce_op reduce_op = RONDE_SUM;
  std::int32_t root = 0;
  std::int32_t group = 0;
  std::int32_t call_site = 0;
  double prescale = 0;
  double postscale = 0;

  /// A request that says this, without tensors. Its name is this object's.
  ronde_request request() const;
};

/// In place of a name: the request's name is what this thread has said last. TensorFlow keeps a kernel of eager mode
/// for each set of attributes for good, some 40 KB, and a program may have a new name for each call.
inline constexpr char kNameFollows[] = "\x01";

/// Begins a name to which a loop's iteration is added. A session runs iterations of a loop at once, and begins their
/// calls as data come: with one name ranks would take different iterations for one.
inline constexpr char kOfIteration = '\x02';

/// For the next request of this thread.
void say_name(const char* name);

/// What has been said, once; null if nothing has.
const char* take_name();

/// Reads them; empty if that fails, which TensorFlow has been told then.
std::optional<Attributes> read_attributes(OpKernelConstruction* construction);

/// One integer; empty if that fails, which TensorFlow has been told then.
std::optional<std::int64_t> read_integer(OpKernelConstruction* construction, const char* name);

}  // namespace ronde::tf
