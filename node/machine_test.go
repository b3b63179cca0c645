package node

import (
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

func TestSlowWritesAreForgottenAfterAMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	w := &writeTimes{now: func() time.Time { return now }}
	expect := func(mean, slowest time.Duration) {
		t.Helper()
		if m, s := w.lately(); m != mean || s != slowest {
			t.Errorf("mean %v, slowest %v; want %v, %v", m, s, mean, slowest)
		}
	}
	expect(0, 0)
	w.add(time.Second)
	w.add(3 * time.Second)
	expect(2*time.Second, 3*time.Second)
	now = now.Add(writesFor) // in the span before the current one
	w.add(2 * time.Second)
	expect(2*time.Second, 3*time.Second)
	now = now.Add(writesFor)
	expect(2*time.Second, 2*time.Second)
	now = now.Add(5 * writesFor)
	expect(0, 0)
}

// What a node says of its machine reaches the status, also that of another node.
func TestTheStatusKnowsTheMachines(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.ready(0, 1, 2)
	c.await("the machines of three nodes", func(status *stintv1.StatusResponse) bool {
		for _, n := range status.Nodes {
			m := n.Machine
			if m == nil || m.DiskFree == 0 || m.DiskFull || m.LogWriteMean.AsDuration() == 0 ||
				m.LogWriteSlowest.AsDuration() < m.LogWriteMean.AsDuration() ||
				m.Memory == 0 || m.MemoryLimit == 0 || m.RecordBytes == 0 || m.RecordBytesLimit == 0 {
				return false
			}
		}
		return len(status.Nodes) == 3
	})
}
