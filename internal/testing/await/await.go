package await

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// TB is the part of testing.TB that waiting needs.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Patience is how long a test waits for an event: only a stalled machine needs longer.
const Patience = 2 * time.Minute

const (
	firstPause = time.Millisecond      // between two looks
	mostPause  = 20 * time.Millisecond // slower conditions are checked less often: checking may cost something
)

// Until returns when the condition holds, and fails the test if that takes longer than Patience. A failure prints the
// details, which are usually pointers to what the condition saw last. It must be called by the test's own goroutine.
func Until(t TB, what string, condition func() bool, details ...any) {
	t.Helper()
	for began, pause := time.Now(), firstPause; !condition(); pause = min(2*pause, mostPause) {
		if time.Since(began) > Patience {
			t.Fatal(inVain(what, details))
		}
		time.Sleep(pause)
	}
}

// Receive returns the next value of a channel, and fails the test if none comes within Patience. A closed channel gives
// a zero value. It must be called by the test's own goroutine.
func Receive[T any](t TB, what string, from <-chan T) (value T) {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case value = <-from:
	case <-late.C:
		t.Fatal(inVain(what, nil))
	}
	return value
}

func inVain(what string, details []any) string {
	text := strings.Builder{}
	fmt.Fprintf(&text, "waited %v in vain: %s", Patience, what)
	for _, detail := range details {
		if _, speaks := detail.(fmt.Stringer); !speaks {
			detail = reflect.Indirect(reflect.ValueOf(detail))
		}
		fmt.Fprintf(&text, "\n%+v", detail)
	}
	return text.String()
}
