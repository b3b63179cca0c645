package bubble

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// Run runs a test in virtual time. All goroutines that it starts must have ended, except those that raft leaves behind.
func Run(t *testing.T, test func(t *testing.T)) {
	bubble := ""
	defer func() {
		if left := recover(); left != nil &&
			!(strings.Contains(fmt.Sprint(left), "blocked goroutines remain") && onlyTransfersIn(bubble)) {
			panic(left)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		bubble = bubbleOf(stacks(false))
		test(t)
	})
}

// stacks is a dump of this goroutine, or of all.
func stacks(all bool) string {
	b := make([]byte, 4<<10)
	if all {
		b = make([]byte, 64<<20)
	}
	return string(b[:runtime.Stack(b, all)])
}

var bubblePattern = regexp.MustCompile(`synctest bubble \d+`)

// bubbleOf is the bubble of the first goroutine in a dump, as dumps name it.
func bubbleOf(dump string) string {
	head, _, _ := strings.Cut(dump, "\n")
	return bubblePattern.FindString(head)
}

// onlyTransfersIn reports whether only leadership transfers after the end of their replication are left in a bubble.
// raft makes them send to a channel without a reader, and another goroutine waits for them (hashicorp/raft,
// leadershipTransfer). Such a pair costs its memory. If the group still leads, it is reopened (R9).
func onlyTransfersIn(bubble string) bool {
	for one := range strings.SplitSeq(stacks(true), "\n\n") {
		if bubble == "" || bubbleOf(one) != bubble {
			continue
		}
		if !strings.Contains(one, "raft.(*Raft).leadershipTransfer(") &&
			!strings.Contains(one, "raft.(*Raft).leaderLoop.func") {
			return false
		}
	}
	return bubble != ""
}
