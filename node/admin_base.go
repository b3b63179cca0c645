package node

import (
	"context"
	"log/slog"
	"time"
)

// adminBase is what the implementations of the API's calls about the cluster share. It holds no state.
type adminBase struct {
	node      string // id of this node
	now       func() time.Time
	view      *clusterView
	documents *documents
	peers     *peers
	reporter  *reporter
	logger    *slog.Logger
	changed   notifier
}

// done logs a change that worked and has the other nodes hear of it soon, or returns why it did not work.
func (a *adminBase) done(err error, level slog.Level, what string, details ...any) error {
	if err == nil {
		a.logger.Log(context.Background(), level, what, details...)
		a.tellOthers()
	}
	return err
}

// tellOthers asks the other nodes at once, so that news travels now.
func (a *adminBase) tellOthers() {
	a.changed.notify()
	a.peers.ask()
}
