# The engine's tests of whole worlds, a second time: over links, with no memory in common (tests/support/local_world.h).
# Left out are those whose subject is shared memory, or what messages cannot do yet.
if(RONDE_TESTS AND NOT RONDE_SANITIZE STREQUAL "tsan")
  set(suites Breaks LaunchFailure Ordered OrderedWorlds OrderedVictim CallsBeyondBarriers Cancellations CancellationsTest DeathInEveryPhase EngineEnd Killed WorldsEnd Engine Worlds Join Joins Replay
    PointToPoint PairWorlds ReplayVictim ReplayWorlds Stalls TableChange Timeline TimelineRanks Lists ListsAfterSingleCalls UnwaitedCallsTest)
  list(TRANSFORM suites APPEND ".*")
  set(in_worlds ${suites})
  list(TRANSFORM in_worlds PREPEND "*/")
  set(left_out
    # Tensors in shared memory.
    "*InReachableMemory*" PointToPoint.ASendGivenUpInTheMiddleHarmsNoOther PointToPoint.WithoutRoomForSlots
    # They store into, or wait for, words of shared memory; what they show can happen there only.
    EngineEnd.ARankThatStopsInTheMiddleEndsTheGroupInTime EngineEnd.WhatIsReadOfARankThatHasGivenUpIsNoSuccess
    EngineEnd.RanksThatLeaveInTheMiddleAreNamed EngineEnd.ARankMayDoItsPartAndLeaveAtAnyMoment
    EngineEnd.NorInReplay EngineEnd.NorWhatWasSent
    EngineEnd.ACoordinatorThatDiesBeforeItsLastWordWasReadIsWaitedForByNobody
    # A rank that leaves has sent what it published: others finish it.
    Replay.TheCoordinatorGoesWhileABucketWaitsForALateRank)
  list(JOIN suites ":" filter)
  list(JOIN in_worlds ":" filter_of_worlds)
  list(JOIN left_out ":" negative)
  gtest_discover_tests(engine_test TEST_PREFIX "engine_by_messages." TEST_LIST engine_by_messages_tests
    TEST_FILTER "${filter}:${filter_of_worlds}:-${negative}"
    PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT RONDE_TEST_MEDIUM=messages DISCOVERY_TIMEOUT 60)
  # And what is about reductions, between hosts of two ranks.
  gtest_discover_tests(engine_test TEST_PREFIX "engine_by_hosts." TEST_LIST engine_by_hosts_tests
    TEST_FILTER "Engine.*:*/Breaks.*:*/DeathInEveryPhase.*:*/Worlds.*:Killed.*:*/Killed.*:Replay.*:*/ReplayWorlds.*:*/ReplayVictim.*:EngineEnd.*:-${negative}"
    PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT RONDE_TEST_MEDIUM=hosts DISCOVERY_TIMEOUT 60)
  # And over backends that need one order of all that the ranks launch. Left out is what counts messages and entries where flags
  # need none, and a break that a rank which is stopped holds up: there it holds up none.
  set(not_ordered *TheSteadyStateSendsNothing* *SendNothing* *AnotherShapeOnAllRanksIsLearnt*
    EngineEnd.NorDoesARankWaitForOneThatGaveUpWhileItWasStopped)
  list(JOIN not_ordered ":" not_ordered)
  foreach(medium memory messages)
    gtest_discover_tests(engine_test TEST_PREFIX "engine_ordered_by_${medium}." TEST_LIST engine_ordered_by_${medium}_tests
      TEST_FILTER "${filter}:${filter_of_worlds}:-${negative}:${not_ordered}"
      PROPERTIES LABELS unit TIMEOUT 120 ENVIRONMENT "RONDE_TEST_ORDERED=1;RONDE_TEST_MEDIUM=${medium}" DISCOVERY_TIMEOUT 60)
  endforeach()
endif()
