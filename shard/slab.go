package shard

// slab hands out parts of larger pieces of memory, so that a batch does not allocate for every request or key. The
// pieces grow with what has been handed out before: a batch of one takes no more than it needs. A part keeps its piece
// alive.
type slab[T any] struct {
	free  []T
	given int // values so far, or expected: the length of the next piece
}

// slabMost bounds a piece, in values.
const slabMost = 64

// take returns n zero values. Appending to the result copies it elsewhere.
func (s *slab[T]) take(n int) []T {
	if len(s.free) < n {
		s.free = make([]T, max(n, min(s.given, slabMost)))
	}
	part := s.free[:n:n]
	s.free = s.free[n:]
	s.given += n
	return part
}
