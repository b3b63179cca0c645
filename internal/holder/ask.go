package holder

import (
	"strings"
	"time"
)

// Name is what a lease is of. The owner alone knows the override of a key, so an entry with a tier has leases of its
// own.
type Name struct {
	Namespace, Policy, Key, Tier string // Tier "": the request names none
	Hashed                       bool   // Key is the hash of the client's key
}

// clone returns the name in memory of its own.
func (n Name) clone() Name {
	for _, text := range []*string{&n.Namespace, &n.Policy, &n.Key, &n.Tier} {
		*text = strings.Clone(*text)
	}
	return n
}

// Ask is what a holder asks the owner of a key: it returns a lease, takes one, or both, in this order.
type Ask struct {
	Name     Name
	Holder   string // of one life of its process
	Number   uint64 // of the lease that is asked for; the holder counts them, and repeats none; 0: none
	Units    uint64 // asked for
	Returned uint64 // the number of a lease that is not spent any more; 0: none
	Spent    uint64 // of the returned one
	// NotAfter is the wall clock after which nothing need be granted any more. It is 0 if nothing is asked for.
	NotAfter time.Duration
}

// Grant is the owner's answer.
type Grant[A any] struct {
	Units  uint64        // 0: nothing was granted
	Within time.Duration // for how long they may be spent, from before the owner was first asked (X17)
	Answer A             // what the lease answers
	// Failed: it is not known whether anything was granted, or returned.
	Failed bool
	// Calm is how long no other lease of the key is asked for if nothing was granted, if that is longer than the life
	// of one.
	Calm time.Duration
}
