package node

import (
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
)

// logWithin is how long a stopping node waits for the disk of its decision log.
const logWithin = time.Second

// assembleDecisions makes what tells others of this node's decisions.
func (n *Node) assembleDecisions(counted *topCounts) {
	n.topReader = &topReader{view: n.view, counted: counted, peers: n.peers, reporter: n.reporter}
	n.watcher = &watcher{view: n.view, peers: n.peers, reporter: n.reporter}
	n.decisionLog = n.config.newDecisionLog(n.topReader.HideKey, n.metrics)
	n.decisions = decisions.NewBus(n.id, n.decisionLog)
}

// newDecisionLog makes the decision log, or nil if none is configured.
func (c *Config) newDecisionLog(
	hide func(namespace, key string) (string, bool), observer *metrics.Metrics,
) *decisions.Log {
	if c.DecisionLog == nil {
		return nil
	}
	to := *c.DecisionLog
	to.Hide, to.Dropped, to.Logger = hide, observer.DecisionLogDropped, c.Logger
	return decisions.NewLog(to)
}
