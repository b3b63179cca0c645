package peer

// Listing says what the newest table that this node knows says about another node.
type Listing int

// The listings.
const (
	// Listed belongs to the cluster.
	Listed Listing = iota
	// Unlisted may ask and be asked: by its report, it is registered.
	Unlisted
	// Removed may do the same. The answers tell it that it was removed, and it is registered again with a new disk.
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
