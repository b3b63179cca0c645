package decisions

// Batch is a message of events from one node to another.
type Batch struct {
	Events []*Record `json:",omitempty"`
	Missed uint64    `json:",omitempty"` // events lost by the reader on the sending node
}

// batchBytes bounds a Batch: half of what a message between nodes may have.
const batchBytes = 1 << 20

// Cut takes as many events as fit into one batch off the front.
func Cut(events []*Record) (batch, rest []*Record) {
	n := 0
	for i, e := range events {
		if n += e.size(); n > batchBytes && i > 0 {
			return events[:i], events[i:]
		}
	}
	return events, nil
}

// size estimates the event's size as JSON in bytes, from above.
func (e *Record) size() (n int) {
	n = 512 + len(e.DecisionID) + 6*(len(e.Namespace)+len(e.Reason)+len(e.Token))
	for _, name := range e.DeniedBy {
		n += 3 + len(name)
	}
	if h := e.Happened; h != nil {
		n += 1024 + 6*(len(h.Namespace)+2*len(h.Policy)+2*len(h.Key))
		if c := h.Change; c != nil {
			n += 6 * (len(c.Namespace) + len(c.Policy) + len(c.Key))
			n += 6 * (len(c.Actor) + len(c.Before) + len(c.After) + len(c.Note))
		}
	}
	for one := range e.Entries() {
		n += 64 + 6*(len(one.Policy)+len(one.Tier)+len(one.Key))
	}
	return n
}
