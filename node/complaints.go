package node

import (
	"time"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// newComplaints bounds the log lines about failures that persist. Otherwise something tried four times a second while a
// node is down would fill a disk.
func newComplaints() loglimit.Limit { return loglimit.Limit{Most: 1, Per: 10 * time.Second} }

// mayComplain reports whether it is time to complain about something, and assumes that the caller then does.
func mayComplain(complaints *loglimit.Limit, about string, now time.Time) bool {
	_, ok := complaints.Allow(about, now)
	return ok
}
