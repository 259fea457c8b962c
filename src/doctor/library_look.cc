#include "doctor/library_look.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/program_output.h"

namespace ronde::doctor {

namespace {

constexpr Nanoseconds kLookLimit = 20 * kSecond;

}  // namespace

std::string look_apart(const std::function<std::string()>& look) {
  return launch::output_of_child(
      [&](int output) {
        const int null = ::open("/dev/null", O_RDWR);
        ::dup2(null, STDOUT_FILENO);
        ::dup2(null, STDERR_FILENO);
        const std::string said = look();
        (void)!::write(output, said.data(), said.size());
      },
      kLookLimit);
}

}  // namespace ronde::doctor
