package shard

import "slices"

// chunkSegments is the number of segments in a chunk: 4 KiB of pointers, copied in a microsecond.
const chunkSegments = 512

// directory lists the segments of a table in chunks. Sharing the list with a picture, or making room for more, copies one
// pointer per chunk, so neither delays an entry, however many records there are: 10 million records are 300,000 segments
// in 600 chunks.
type directory struct {
	chunks     []*chunk
	heads      *heads
	length     int    // segments
	generation uint64 // chunks, heads and segments of an older generation are shared with a picture and copied before they change
}

type chunk struct {
	generation uint64
	segments   [chunkSegments]*segment
}

func (d *directory) at(n int) *segment { return d.chunks[n/chunkSegments].segments[n%chunkSegments] }

// set puts g at index n, which must be below the length.
func (d *directory) set(n int, g *segment) {
	c := d.chunks[n/chunkSegments]
	if c.generation != d.generation {
		c = &chunk{d.generation, c.segments}
		d.chunks[n/chunkSegments] = c
	}
	c.segments[n%chunkSegments] = g
}

// fill is like set, for a directory that is being read from a snapshot, where chunks may be missing.
func (d *directory) fill(n int, g *segment) {
	if d.chunks[n/chunkSegments] == nil {
		d.chunks[n/chunkSegments] = &chunk{generation: d.generation}
	}
	d.set(n, g)
}

func (d *directory) append(g *segment) {
	if d.length%chunkSegments == 0 {
		d.chunks = append(d.chunks, &chunk{generation: d.generation})
	}
	d.length++
	d.set(d.length-1, g)
}

// setHead sets the text of a head's number.
func (d *directory) setHead(number byte, text string) {
	if d.heads.generation != d.generation { //mutant:head-changes-in-a-snapshot
		d.heads = &heads{d.generation, d.heads.texts}
	}
	d.heads.texts[number] = text
}

// removeLast removes the last segment from the list.
func (d *directory) removeLast() {
	d.length--
	if d.length%chunkSegments == 0 {
		last := len(d.chunks) - 1
		d.chunks[last] = nil
		d.chunks = d.chunks[:last]
		return
	}
	d.set(d.length, nil)
}

// share returns the current list for a picture. From now on each chunk and segment is copied before it changes.
func (d *directory) share() directory {
	shared := directory{chunks: slices.Clone(d.chunks), heads: d.heads, length: d.length, generation: d.generation}
	d.generation++
	return shared
}
