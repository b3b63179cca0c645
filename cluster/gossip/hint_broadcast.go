package gossip

import "github.com/hashicorp/memberlist"

// hintRetransmits is memberlist's own choice: a hint is sent this many times the logarithm of the number of nodes.
const hintRetransmits = 4

// hintBroadcast is one hint in the send queue. The next hint of the same shard replaces it.
type hintBroadcast struct {
	name    string // of the shard
	message []byte
}

// Name implements memberlist.NamedBroadcast: the queue holds one message of each name.
func (b *hintBroadcast) Name() string { return b.name }

func (b *hintBroadcast) Message() []byte { return b.message }

func (b *hintBroadcast) Finished() {}

// Invalidates implements memberlist.Broadcast. It says the same as Name, which is all that memberlist asks for now.
func (b *hintBroadcast) Invalidates(other memberlist.Broadcast) bool {
	named, ok := other.(memberlist.NamedBroadcast)
	return ok && named.Name() == b.name
}
