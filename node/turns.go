package node

// turns lets one goroutine at a time learn what it was told. What is learned is written to disk before it is used,
// which may take long. It is not a mutex, because waiting for a mutex does not work in virtual time.
type turns chan struct{}

func newTurns() turns { return make(turns, 1) }

// take waits for the turn; calling end ends it.
func (t turns) take() (end func()) {
	t <- struct{}{}
	return func() { <-t }
}
