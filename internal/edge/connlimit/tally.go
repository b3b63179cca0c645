package connlimit

import (
	"net"
	"net/netip"
	"sync"

	"github.com/stint-io/stint/internal/edge/clientaddr"
)

// Why is the reason why a connection has no room.
type Why string

const (
	Room Why = "" // there is room
	// Full means that the number of connections has reached the bound.
	Full Why = "full"
	// Greedy means that the connection's address holds its quarter.
	Greedy Why = "address"
)

// Tally counts connections, in all and by address. It may be used concurrently.
type Tally struct {
	most, each int

	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

// NewTally makes a Tally for most connections, a quarter of them from one address.
func NewTally(most int) *Tally {
	return &Tally{most: most, each: max(1, most/4), of: make(map[netip.Addr]int)}
}

// Enter counts a connection if there is room for it. Then the caller must call Leave once.
func (t *Tally) Enter(from net.Addr) Why {
	who, counted := holder(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case counted && t.of[who] >= t.each: // checked first: this reason remains when other connections have gone
		return Greedy
	case t.all >= t.most:
		return Full
	}
	t.all++
	if counted {
		t.of[who]++
	}
	return Room
}

// Leave removes an admitted connection from the count.
func (t *Tally) Leave(from net.Addr) {
	who, counted := holder(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if !counted {
		return
	}
	if t.of[who]--; t.of[who] == 0 {
		delete(t.of, who)
	}
}

// Open returns the number of connections.
func (t *Tally) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}

// holder returns the address that a connection counts for: an IPv4 address, or an IPv6 /64, because one client usually
// has the whole /64. Connections from this machine, and those without an IP address, are not counted by address.
func holder(from net.Addr) (who netip.Addr, counted bool) {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	who = tcp.AddrPort().Addr().Unmap().WithZone("")
	if !who.IsValid() || who.IsLoopback() {
		return netip.Addr{}, false
	}
	return clientaddr.Holder(who), true
}
