package node

import (
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
)

// decisionLogWithin is how long a stopping node waits for the disk of its decision log.
const decisionLogWithin = time.Second

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
