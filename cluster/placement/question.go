package placement

import (
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/top"
)

// Question asks a node for a Report.
type Question struct {
	Versions  map[string]uint64 `json:",omitempty"` // of the shared documents that the asker knows, by name
	TokenUses bool              `json:",omitempty"` // ask when tokens were last used
	// Life and At are those of the asking process (Report), even if another process is its node.
	Life string `json:",omitempty"`
	At   string `json:",omitempty"`
	// Stopping is its goodbye: connections of it that end do not mean that it has died. It is asked only together with
	// Life.
	Stopping bool `json:",omitempty"`
	// Died names another node, and asks for nothing else than whether its process has died, and which voters would
	// succeed it.
	Died string `json:",omitempty"`
	// Top asks for the keys that stand out, and for nothing else. It is a question of its own connection
	// (Port.DialAsk).
	Top *top.Query `json:",omitempty"`
	// End asks that the leases of a key be returned, for a change of it by hand, and for nothing else. It is a
	// question of its own connection, since the answer waits for the owner of the key.
	End *LeasedKey `json:",omitempty"`
	// Watch asks for the decisions of the node from now on, and for nothing else. The connection carries nothing else
	// afterwards.
	Watch *decisions.Filter `json:",omitempty"`
}

// LeasedKey is a key under a policy, or under all of them if Policy is empty.
type LeasedKey struct {
	Namespace, Policy string
	Key               []byte // its bytes: JSON texts are UTF-8
}
