package recovery

import (
	"net"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/limit"
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
