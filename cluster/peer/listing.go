package peer

// Listing says what the newest table that this node knows says about another node.
type Listing int

// The listings.
const (
	Listed   Listing = iota // it belongs to the cluster
	Unlisted                // it may ask, and register by that
	// it was removed from the cluster: it may ask, which tells it so, and register by that with a new disk
	Removed
)

// mayConnect returns why this node has no connection of that kind with another node, in either direction; 0: it may.
func (p *Port) mayConnect(kind connKind, node string) Refusal {
	switch listing := p.config.Listing(node); {
	case listing == Removed && kind != kindAsk: //mutant:removed-node-connects
		return WasRemoved
	case listing == Unlisted && kind != kindAsk: //mutant:table-does-not-admit
		return NotListed
	}
	return 0
}
