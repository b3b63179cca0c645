package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/raftfsm"
)

// A node alone ends with status 75 when the end of its log is lost. Once a person has decided that it goes on with what
// is left, it says so; one that was stopped in order does not.
func TestAStartAfterStatus75SaysSo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		const series = "stint_disk_distrusted_timestamp_seconds"
		config, began := onRealDisk(t), time.Now()
		stop(t, start(t, config))
		n := start(t, config)
		if at := scraped(n, series); at != "" {
			t.Errorf("a node that was stopped in order says %q", at)
		}
		stop(t, n)
		tear(t, config.DataDir)
		n, err := Start(t.Context(), config)
		if err == nil {
			err = await.Receive(t, "the node ends", n.Done())
			stop(t, n) // as no process does, so that this one can start another node there
		}
		if !errors.Is(err, ErrDisk) {
			t.Fatalf("the node ended with %v, want an error of the disk", err)
		}
		if err := os.Remove(filepath.Join(config.DataDir, "suspect")); err != nil {
			t.Fatal(err)
		}
		n = start(t, config)
		defer stop(t, n)
		at, err := strconv.ParseFloat(scraped(n, series), 64)
		if err != nil || at < float64(began.Unix()) || at > float64(time.Now().Unix()+1) {
			t.Errorf("it ended at %v, %v, and the test began at %d", at, err, began.Unix())
		}
	})
}

// Several goroutines write records. One that is refused by stores which have just stopped may be the first to tell the
// node. Its exit status says whether a supervisor may start the process again.
func TestARefusalByStoppedStoresIsTheDisksFailure(t *testing.T) {
	n := &Node{}
	n.fatal = make(chan error, 1)
	n.fail(fmt.Errorf("keeping the table: %w: %w", raftfsm.ErrUntrusted, syscall.EIO))
	n.fail(errors.New("whatever follows"))
	if err := <-n.fatal; !errors.Is(err, ErrDisk) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the node ends with %v, want an error of the disk", err)
	}
	n.fail(errors.New("a task panicked"))
	if err := <-n.fatal; errors.Is(err, ErrDisk) {
		t.Errorf("the node ends with %v, which is not the disk's fault", err)
	}
}
