package connlimit

import "sync"

// Bound counts the connections, streams and the like that are open at once: so many in all, and a quarter of them for
// one client. The zero Client stands for all clients that are not told apart: the quarter does not bound them. A Bound
// may be used concurrently.
type Bound[Client comparable] struct {
	most, each int // in all, and for one client

	mu  sync.Mutex     // guards the fields below
	all int            // open now; the sum of of
	of  map[Client]int // without clients that have none open
}

// NewBound makes a Bound for most at once.
func NewBound[Client comparable](most int) *Bound[Client] {
	return &Bound[Client]{most: most, each: max(1, most/4), of: make(map[Client]int)}
}

// Enter counts one more for a client if there is room for it. If it returns Room, the caller must call Leave once.
func (b *Bound[Client]) Enter(who Client) Why {
	var anybody Client
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	// The client's share is checked first: this reason remains when others have gone.
	case who != anybody && b.of[who] >= b.each: //mutant:one-token-watches-alone
		return Greedy
	case b.all >= b.most:
		return Full
	}
	b.all++
	b.of[who]++
	return Room
}

// Leave ends one of a client's.
func (b *Bound[Client]) Leave(who Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.of[who]--; b.of[who] == 0 {
		delete(b.of, who)
	}
}

// Open returns how many are open.
func (b *Bound[Client]) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}
