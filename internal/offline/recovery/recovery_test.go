package recovery

import (
	"net"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/raftfsm"
)

// A process that accepts a connection answers.
func TestAnAddressThatAcceptsAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if !accepts(t.Context(), listener.Addr().String()) {
		t.Error("it accepts and does not answer")
	}
	listener.Close()
	if accepts(t.Context(), listener.Addr().String()) {
		t.Error("it is closed and answers")
	}
}

// A part from before the cluster stopped lacks what its node counted since.
func TestAPartFromBeforeTheClusterStoppedIsRefused(t *testing.T) {
	const counted = limit.Time(3600e6)
	for read, want := range map[limit.Time]string{counted + 1e6: "",
		counted - limit.Time(restore.Margin.Microseconds()) - 1: "make it again"} {
		r := &Recovery{remnants: []*remnant{{from: "part", about: remnantAbout{Node: "n1", Read: int64(read)}},
			{from: "disk", about: remnantAbout{Node: "n2", Read: int64(2 * counted),
				Replicas: []Replica{{Time: counted}}}}}}
		if err := r.belongTogether(); (err != nil) != (want != "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("read at %d: %v", read, err)
		}
	}
}

// A directory is read now, so nothing is to be made again where the clock of the machine is behind.
func TestAClockThatIsBehindIsNamed(t *testing.T) {
	disk := &remnant{from: "disk", dir: &raftfsm.Remains{}, about: remnantAbout{Node: "n1", Read: 3600e6,
		Replicas: []Replica{{Time: 7200e6}}}}
	r := &Recovery{remnants: []*remnant{disk}}
	if err := r.belongTogether(); err == nil || !strings.Contains(err.Error(),
		"disk was read at 1970-01-01T01:00:00Z, and disk has counted until 1970-01-01T02:00:00Z: set the clock") {
		t.Error(err)
	}
}
