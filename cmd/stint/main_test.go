package main

import (
	"errors"
	"fmt"
	"github.com/stint-io/stint/node"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"failed", errors.New("no majority"), 1},
		{"a wrong command line", fmt.Errorf("serve: %w", usagef("--shards: must be at least 1")), 2},
		{"a wrong configuration", fmt.Errorf("%w: shards: 300", node.ErrConfig), 2},
		{"a node id that is taken", fmt.Errorf("%w: it answers", node.ErrTwice), 2},
		{"denied", fmt.Errorf("check: %w", errDenied), 3},
		{"a disk not to trust", fmt.Errorf("%w: fdatasync: input/output error", node.ErrDisk), 75},
		{"a disk not to trust, whatever else", errors.Join(node.ErrConfig, node.ErrDisk), 75},
	} {
		var stderr strings.Builder
		if got := exitCode(c.err, &stderr); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
		// A denial is already printed on stdout; no other error may end without a message.
		if silent := c.want == 0 || c.want == exitDenied; silent != (stderr.Len() == 0) {
			t.Errorf("%s: stderr %q", c.name, stderr.String())
		}
	}
}
