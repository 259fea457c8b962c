#include "launch/heartbeat.h"

namespace ronde::launch {

void Heartbeat::look(Nanoseconds now) {
  if (now - last_look_ > kOwnPause) {
    heard_ = now;
  }
  last_look_ = now;
}

bool Heartbeat::take_beat(Nanoseconds now) {
  if (now < next_beat_) {
    return false;
  }
  next_beat_ = later(now, kBeat);
  return true;
}

}  // namespace ronde::launch
