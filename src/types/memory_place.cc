#include "types/memory_place.h"

namespace ronde {

void write(ByteWriter& writer, const MemoryPlace& place) {
  writer.put(place.input);
  writer.put(place.output);
}

MemoryPlace read_memory_place(ByteReader& reader) {
  MemoryPlace place;
  place.input = reader.get<std::int64_t>();
  place.output = reader.get<std::int64_t>();
  return place;
}

void write(ByteWriter& writer, const MemoryPlaces& places) {
  writer.put(static_cast<std::uint32_t>(places.size()));
  for (const MemoryPlace& place : places) {
    write(writer, place);
  }
}

MemoryPlaces read_memory_places(ByteReader& reader) {
  MemoryPlaces places(reader.get_count(16));
  for (MemoryPlace& place : places) {
    place = read_memory_place(reader);
  }
  return places;
}

}  // namespace ronde
