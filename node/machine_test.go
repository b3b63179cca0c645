package node

import (
	"math"
	"testing"
	"testing/fstest"
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

func TestTheMemoryIsThatOfTheControlGroups(t *testing.T) {
	t.Parallel()
	const unit, of2, of1 = "/system.slice/stint.service", "sys/fs/cgroup", "sys/fs/cgroup/memory"
	for _, c := range []struct {
		name, groups string
		files        map[string]string
		want         int64
	}{
		{"none", "", nil, math.MaxInt64},
		{"a container", "0::/\n", map[string]string{of2 + "/memory.max": "1000\n"}, 1000},
		{"a container of version 1, under the name that it has outside", "5:cpu:/docker/a\n4:memory:/docker/a\n",
			map[string]string{of1 + "/memory.limit_in_bytes": "1000\n"}, 1000},
		{"a unit", "0::" + unit + "\n", map[string]string{of2 + unit + "/memory.max": "1000\n",
			of2 + "/system.slice/memory.max": "max\n"}, 1000},
		{"a unit in a smaller slice", "0::" + unit + "\n", map[string]string{of2 + unit + "/memory.max": "1000\n",
			of2 + "/system.slice/memory.max": "500\n"}, 500},
		{"a unit of version 1", "4:memory:" + unit + "\n0::" + unit + "\n", map[string]string{
			of1 + unit + "/memory.limit_in_bytes":        "1000\n",
			of1 + "/system.slice/memory.limit_in_bytes":  "9223372036854771712\n",
			of1 + "/other.service/memory.limit_in_bytes": "10\n",
			of2 + "/other.service/memory.max":            "10\n",
			of1 + unit + "/below/memory.limit_in_bytes":  "10\n",
			"memory.limit_in_bytes":                      "10\n"}, 1000},
		{"a group outside the root", "0::/../a\n", map[string]string{of2 + "/memory.max": "1000\n"}, 1000},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.groups)}}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := controlGroupMemory(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
