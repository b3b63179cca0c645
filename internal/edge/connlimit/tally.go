package connlimit

import (
	"net"
	"net/netip"

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
type Tally struct{ *Bound[netip.Addr] }

// NewTally makes a Tally for most connections, a quarter of them from one address.
func NewTally(most int) *Tally { return &Tally{NewBound[netip.Addr](most)} }

// Enter counts a connection if there is room for it. Then the caller must call Leave once.
func (t *Tally) Enter(from net.Addr) Why { return t.Bound.Enter(holder(from)) }

// Leave removes an admitted connection from the count.
func (t *Tally) Leave(from net.Addr) { t.Bound.Leave(holder(from)) }

// holder returns the address that a connection counts for: an IPv4 address, or an IPv6 /64, because one client usually
// has the whole /64. Connections from this machine, and those without an IP address, are not counted by address: for
// them it returns none.
func holder(from net.Addr) (none netip.Addr) {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return none
	}
	who := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !who.IsValid() || who.IsLoopback() {
		return none
	}
	return clientaddr.Holder(who)
}
