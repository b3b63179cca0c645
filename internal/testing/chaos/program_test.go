//go:build chaos || docker

package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// program returns the path of a stint whose clock can be made wrong.
func program(t *testing.T) string {
	t.Helper()
	path, err := testcluster.Binary("chaos")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pause is for clients between two tries, and for the time that a fault or a load lasts. What a test can see is awaited.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
