package node

import (
	"log/slog"
	"time"
)

// administration is what the implementations of the API's calls about the cluster share. It holds no state.
type administration struct {
	node      string // id of this node
	now       func() time.Time
	view      *clusterView
	documents *documents
	peers     *peers
	reporter  *reporter
	logger    *slog.Logger
	changed   notifier
}

// tellOthers asks the other nodes at once, so that news travels now.
func (a *administration) tellOthers() {
	a.changed.notify()
	a.peers.ask()
}
