package sleep

import (
	"context"
	"time"
)

// For waits that long. It returns false if ctx ends first.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
