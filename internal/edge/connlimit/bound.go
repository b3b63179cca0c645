package connlimit

import "sync"

// Bound counts what may be open so many times at once, and a quarter of them for one client. It may be used
// concurrently. The zero Client stands for those who are not told apart: they have no share of their own.
type Bound[Client comparable] struct {
	most, each int

	mu  sync.Mutex
	all int
	of  map[Client]int
}

// NewBound makes a Bound for most at once.
func NewBound[Client comparable](most int) *Bound[Client] {
	return &Bound[Client]{most: most, each: max(1, most/4), of: make(map[Client]int)}
}

// Enter counts one more for a client if there is room for it. Then the caller must call Leave once.
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
