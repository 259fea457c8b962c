#include "types/heap_places.h"

namespace ronde {

void write(ByteWriter& writer, const HeapPlace& place) {
  writer.put(place.input);
  writer.put(place.output);
}

HeapPlace read_heap_place(ByteReader& reader) {
  HeapPlace place;
  place.input = reader.get<std::int64_t>();
  place.output = reader.get<std::int64_t>();
  return place;
}

void write(ByteWriter& writer, const HeapPlaces& places) {
  writer.put(static_cast<std::uint32_t>(places.size()));
  for (const HeapPlace& place : places) {
    write(writer, place);
  }
}

HeapPlaces read_heap_places(ByteReader& reader) {
  HeapPlaces places(reader.get_count(16));
  for (HeapPlace& place : places) {
    place = read_heap_place(reader);
  }
  return places;
}

}  // namespace ronde
