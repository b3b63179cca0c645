package peer

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Refusal is the reason why a peer port turned a dialer away. As an error it comes wrapped with the dialed address and
// the peer's own detail. The numbers cross the wire: append, never renumber. Releases before 0.2.0 sent 7.
type Refusal byte

// The refusals.
const (
	WrongVersion     Refusal = 1  // the peer reads another version of the protocol
	WrongCluster     Refusal = 2  // it belongs to another cluster
	WrongNode        Refusal = 3  // another node answers at this address
	UnknownReplica   Refusal = 4  // the node is right, but does not run the replica (no longer, or not yet)
	WrongCertificate Refusal = 5  // our certificate belongs to another node
	NotServing       Refusal = 6  // it takes no forwarded requests now
	NotAnswering     Refusal = 8  // it answers no questions
	NotListed        Refusal = 9  // by its table we do not belong to the cluster (yet): we may only ask
	WasRemoved       Refusal = 10 // by its table we were removed from the cluster: we may only ask
)

var refusals = map[Refusal]string{
	WrongVersion:     "it reads another version of the peer protocol",
	WrongCluster:     "it belongs to another cluster",
	WrongNode:        "it is another node",
	UnknownReplica:   "it does not run that replica",
	WrongCertificate: "our certificate is not that of the node we say we are",
	NotServing:       "it takes no forwarded requests now",
	NotAnswering:     "it answers no questions",
	NotListed:        "it does not know us as a node of its cluster",
	WasRemoved:       "we were removed from its cluster",
}

// Error implements error.
func (r Refusal) Error() string {
	if text, ok := refusals[r]; ok {
		return text
	}
	return fmt.Sprintf("refusal %d, of a newer version", byte(r))
}

// errNoConnection says why this node does not dial. These are no Refusals: no node has refused this one.
var errNoConnection = map[Refusal]error{
	NotListed:  errors.New("the newest table that is known here does not list it"),
	WasRemoved: errors.New("it was removed from the cluster"),
}

// encodeReply encodes the acceptor's reply; refusal 0 is the welcome. detail says what the acceptor has instead; "" to
// a dialer that is to hear no ids.
func encodeReply(refusal Refusal, detail string) []byte {
	detail = detail[:min(len(detail), maxDetail)]
	return append(append([]byte(preambleMagic), byte(refusal), byte(len(detail))), detail...)
}

// readReply reads the acceptor's reply and not a byte more. A welcome returns nil.
func readReply(in io.Reader) error {
	var head [len(preambleMagic) + 2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return fmt.Errorf("it hung up without an answer (is TLS on at one end only?): %w", err)
	}
	rest, ours := strings.CutPrefix(string(head[:]), preambleMagic)
	if !ours {
		return errNotAPeer
	}
	detail := make([]byte, rest[1])
	if _, err := io.ReadFull(in, detail); err != nil {
		return err
	}
	switch refusal := Refusal(rest[0]); {
	case refusal != 0 && len(detail) > 0:
		return fmt.Errorf("%w: %q", refusal, detail)
	case refusal != 0:
		return refusal
	}
	return nil
}
