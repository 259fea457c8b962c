#include "doctor/host_checks.h"

#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "base/cores.h"
#include "base/host_name.h"
#include "base/memory_room.h"
#include "base/site_settings.h"
#include "base/unique_fd.h"
#include "base/version.h"
#include "doctor/mpi_check.h"
#include "doctor/ofi_check.h"
#include "doctor/oneccl_check.h"
#include "doctor/python_check.h"
#include "doctor/site_check.h"
#include "launch/launcher_process.h"
#include "launch/program_path.h"
#include "store/interfaces.h"
#include "store/private_folder.h"

namespace ronde::doctor {

namespace {

constexpr rlim_t kFewFiles = 1024;

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

Finding system_finding() {
  utsname names{};
  ::uname(&names);
  const std::optional<double> quota = cgroup_quota();
  const std::uint64_t memory = memory_room();
  std::string text = "Ronde " + std::string(kVersion) + ", " + names.sysname + " " + names.release + ", " +
                     names.machine + ", " + std::to_string(affinity_cores()) + " cores";
  text += quota ? " of which a quota allows " + one_decimal(*quota) : "";
  text += memory == kUnlimitedMemory
              ? ""
              : ", " + one_decimal(static_cast<double>(memory) / (1 << 30)) + " GiB of memory available";
  return {Grade::ok, "system", text, ""};
}

/// Ranks of a host share memory that has no name: memfd_create, passed by descriptor.
Finding memory_finding() {
  constexpr std::size_t kBytes = 1 << 20;
  const UniqueFd memory(static_cast<int>(::syscall(SYS_memfd_create, "ronde-doctor", MFD_CLOEXEC)));
  void* place = MAP_FAILED;
  if (memory.is_open() && ::ftruncate(memory.get(), kBytes) == 0) {
    place = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  }
  if (place == MAP_FAILED) {
    return {Grade::failure, "shared memory", std::string("cannot be made: ") + std::strerror(errno),
            "a container's seccomp profile may forbid memfd_create; ranks then reach each other over TCP, slower"};
  }
  ::munmap(place, kBytes);
  return {Grade::ok, "shared memory", "can be made", ""};
}

Finding folder_finding() {
  const Result<store::PrivateFolder> folder = store::PrivateFolder::create();
  if (!folder) {
    return {Grade::failure, "private folder", folder.status().message(),
            "set TMPDIR to a folder that you can write to"};
  }
  return {Grade::ok, "private folder", folder.value().path().substr(0, folder.value().path().rfind('/')), ""};
}

Finding files_finding() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = std::to_string(limit.rlim_cur) + ", can be raised to " + std::to_string(limit.rlim_max);
  if (limit.rlim_max < kFewFiles) {
    return {Grade::warning, "open files", text, "jobs of many ranks need more: raise the hard limit (ulimit -Hn)"};
  }
  return {Grade::ok, "open files", text, ""};
}

Finding process_finding() {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!self.is_open()) {
    return {Grade::warning, "deaths", std::string("cannot be watched (pidfd_open: ") + std::strerror(errno) + ")",
            "a rank that dies is noticed by time limits only: use Linux 5.3 or newer, or another seccomp profile"};
  }
  return {Grade::ok, "deaths", "are seen at once", ""};
}

/// Ronde does not ask for it, but programs beside it do.
Finding name_finding() {
  const std::string name = host_name();
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(name.c_str(), nullptr, nullptr, &found);
  if (failure != 0) {
    return {Grade::notice, "host name", "'" + name + "' has no address: " + ::gai_strerror(failure),
            "Ronde needs none, torch.distributed's own store may: add it to /etc/hosts"};
  }
  char text[NI_MAXHOST] = "";
  ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(found);
  const std::string address = text;
  if (store::is_loopback(address)) {
    return {Grade::notice, "host name", "'" + name + "' is " + address + " here, which no other host can reach",
            "Ronde does not use it; for programs that do, give the name its real address in /etc/hosts"};
  }
  return {Grade::ok, "host name", "'" + name + "' is " + address, ""};
}

int mtu_of(const char* interface) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
  return ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

Finding network_finding() {
  std::string text;
  for (const store::InterfaceAddress& each : store::interface_addresses()) {
    if (!store::is_loopback(each.address)) {
      text += (text.empty() ? "" : ", ") + each.interface + " " + each.address + " (MTU " +
              std::to_string(mtu_of(each.interface.c_str())) + ")";
    }
  }
  if (text.empty()) {
    return {Grade::notice, "network", "no interface but the loopback", "jobs of this host alone need none"};
  }
  return {Grade::ok, "network", text, ""};
}

Finding clock_finding() {
  timex now{};
  if (::adjtimex(&now) == TIME_ERROR || (now.status & STA_UNSYNC) != 0) {
    return {Grade::notice, "clock", "the kernel knows of no synchronisation",
            "timelines of several hosts are aligned by it: run chrony or ntpd"};
  }
  return {Grade::ok, "clock", "synchronised", ""};
}

Finding ssh_finding() {
  if (launch::check_program("ssh", launch::own_environment())) {
    return {Grade::notice, "ssh", "is in no folder of PATH", "`ronde run -H` needs it: install an OpenSSH client"};
  }
  return {Grade::ok, "ssh", "is there", ""};
}

/// What somebody has set, and may have forgotten.
std::optional<Finding> settings_finding() {
  std::string text;
  for (const std::string& each : launch::own_environment()) {
    const std::string name = each.substr(0, each.find('='));
    const bool is_setting = name.starts_with("RONDE_") || name.starts_with("HOROVOD_");
    // What a launcher sets; and no secret is shown.
    const bool is_place = name.ends_with("RANK") || name.ends_with("SIZE") || name == "RONDE_STORE" ||
                          name == "RONDE_KEY" || name == "RONDE_MASTER" || name == "RONDE_ADDRESS" ||
                          name == "HOROVOD_HOSTNAME" || name == "RONDE_SSH";
    if (is_setting && !is_place) {
      text += (text.empty() ? "" : ", ") + each;
    }
  }
  return text.empty() ? std::nullopt : std::optional<Finding>({Grade::notice, "settings", text, ""});
}

std::string processor_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? "x86-64-v4"
         : __builtin_cpu_supports("avx2")                                        ? "x86-64-v3"
                                                                                 : "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

}  // namespace

HostReport examine_host() {
  HostReport report;
  report.host = host_name();
  report.processor = processor_level();
  report.findings = {system_finding(), memory_finding(),  folder_finding(), files_finding(), process_finding(),
                     name_finding(),   network_finding(), clock_finding(),  ssh_finding()};
  if (const std::optional<Finding> settings = settings_finding()) {
    report.findings.push_back(*settings);
  }
  if (const std::optional<Finding> site = site_finding(site_settings())) {
    report.findings.push_back(*site);
  }
  add_mpi(report);
  add_oneccl(report);
  add_ofi(report);
  add_python(report);
  return report;
}

}  // namespace ronde::doctor
