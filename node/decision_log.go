package node

import (
	"io"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
)

// DecisionLog configures the log of decisions.
type DecisionLog struct {
	File         string         // where the lines go; "": Out
	Out          io.Writer      // likewise
	Bytes        int64          // from which size on another file is begun
	Files        int            // how many are kept
	Keys         decisions.Keys // how keys are shown; "": hashed
	AllowedEvery uint64         // one allowed decision in this many is logged; 0: none, 1: all
}

// logWithin is how long a stopping node waits for the disk of its decision log.
const logWithin = time.Second

// assembleDecisions makes what tells others of this node's decisions.
func (n *Node) assembleDecisions(counted *topCounts) {
	n.topReader = &topReader{view: n.view, counted: counted, peers: n.peers, reporter: n.reporter}
	n.watcher = &watcher{view: n.view, peers: n.peers, reporter: n.reporter}
	if to := n.config.DecisionLog; to != nil {
		out := decisions.To(to.Out)
		if to.File != "" {
			out = decisions.File(decisions.FileConfig{Path: to.File, Bytes: to.Bytes, Files: to.Files})
		}
		n.decisionLog = decisions.NewLog(decisions.LogConfig{Out: out, Keys: to.Keys, Hide: n.topReader.HideKey, AllowedEvery: to.AllowedEvery,
			Dropped: n.metrics.DecisionLogDropped, Logger: n.config.Logger})
	}
	n.decisions = decisions.NewBus(n.id, n.decisionLog)
}

// endDecisionLog writes what is left of the decision log.
func (n *Node) endDecisionLog() {
	if n.decisionLog != nil {
		n.decisionLog.Close(logWithin)
	}
}
