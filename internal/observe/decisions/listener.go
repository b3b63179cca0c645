package decisions

// Listener gets every event of a node's ports. It may be called concurrently, must not block, and must copy what it
// keeps of the event: requests and results are in the call's memory, and may be reused.
type Listener interface{ Ended(*Event) }

// Listeners are called in their order.
type Listeners []Listener

// Ended passes an event to every listener.
func (l Listeners) Ended(e *Event) {
	for _, one := range l {
		one.Ended(e)
	}
}
