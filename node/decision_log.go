package node

import (
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
)

// logWithin is how long a stopping node waits for the disk of its decision log.
const logWithin = time.Second

// assembleDecisions makes what tells others of this node's decisions.
func (n *Node) assembleDecisions(counted *topCounts) {
	n.topReader = &topReader{view: n.view, counted: counted, peers: n.peers, reporter: n.reporter}
	n.watcher = &watcher{view: n.view, peers: n.peers, reporter: n.reporter}
	if n.config.DecisionLog != nil {
		to := *n.config.DecisionLog
		to.Hide, to.Dropped, to.Logger = n.topReader.HideKey, n.metrics.DecisionLogDropped, n.config.Logger
		n.decisionLog = decisions.NewLog(to)
	}
	n.decisions = decisions.NewBus(n.id, n.decisionLog)
}
