package await

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fatal is a test that may fail.
type fatal struct{ said string }

func (f *fatal) Helper() {}

func (f *fatal) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}

// run lets a test end, and returns what it failed with.
func run(test func(TB)) (said string) {
	f, ended := &fatal{}, make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.said
}

func TestWhatHappensIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened atomic.Bool
		came, closed := make(chan int, 1), make(chan int)
		close(closed)
		began := time.Now()
		time.AfterFunc(30*time.Second, func() { happened.Store(true) })
		time.AfterFunc(80*time.Second, func() { came <- 7 })
		said := run(func(f TB) {
			Until(f, "it happens", happened.Load)
			if took := time.Since(began); took < 30*time.Second || took > 30*time.Second+mostPause {
				t.Errorf("it happened after 30 s, and was seen after %v", took)
			}
			if value := Receive(f, "a value comes", came); value != 7 || time.Since(began) != 80*time.Second {
				t.Errorf("%d came after %v", value, time.Since(began))
			}
			Receive(f, "a channel is closed", closed)
		})
		if said != "" {
			t.Error(said)
		}
	})
}

func TestWhatDoesNotHappenEndsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		state, err := struct{ Level int }{}, error(nil)
		never := func() bool { state.Level, err = 3, errors.New("broken"); return false }
		said := run(func(f TB) { Until(f, "it happens", never, &state, &err, bytes.NewBufferString("a log")) })
		if !strings.Contains(said, "in vain: it happens\n{Level:3}\nbroken\na log") {
			t.Errorf("it says %q", said)
		}
		said = run(func(f TB) { Receive(f, "a value comes", make(chan int)) })
		if !strings.Contains(said, "in vain: a value comes") {
			t.Errorf("it says %q", said)
		}
		if took := time.Since(began); took < 2*Patience || took > 2*Patience+time.Second {
			t.Errorf("both took %v", took)
		}
	})
}
