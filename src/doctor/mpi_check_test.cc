#include "doctor/mpi_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::doctor {
namespace {

using testing::HasSubstr;

TEST(MpiCheck, FilesThatAreNotThereAreNoFindings) {
  HostReport report;
  add_mpi_libraries({"/nowhere/libmpi.so.40", "libnowhere_mpi.so.12"}, report);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].grade, Grade::notice);
  EXPECT_EQ(report.findings[0].text, "none is found");
}

TEST(MpiCheck, WhatIsNoMpiSaysWhy) {
  HostReport report;
  add_mpi_libraries({"libc.so.6", "/proc/self/exe"}, report);
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].grade, Grade::notice);
  EXPECT_THAT(report.findings[0].text,
              HasSubstr("libc.so.6 cannot be used: the library of MPI has no MPI_Init_thread"));
  EXPECT_THAT(report.findings[1].text, HasSubstr("/proc/self/exe cannot be used: "));
}

TEST(MpiCheck, TheSameFileIsNamedOnce) {
  HostReport report;
  add_mpi_libraries({"libc.so.6", "libc.so.6"}, report);
  EXPECT_EQ(report.findings.size(), 1U);
}

}  // namespace
}  // namespace ronde::doctor
