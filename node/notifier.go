package node

// notifier wakes the one goroutine that receives from it. Its capacity is 1: several notes become one.
type notifier chan struct{}

func newNotifier() notifier { return make(notifier, 1) }

// notify makes the receiver look at once. It never blocks and may be called concurrently.
func (n notifier) notify() {
	select {
	case n <- struct{}{}:
	default:
	}
}
