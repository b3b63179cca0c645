//go:build chaos || docker

package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// program returns the path of a stint with a clock that can be made wrong.
func program(t *testing.T) string {
	t.Helper()
	path, err := testcluster.Binary("chaos")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pause is for clients between two attempts, and for the time that a fault or a load lasts. Events that a test can see
// are awaited.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
