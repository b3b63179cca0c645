package shard

import "github.com/stint-io/stint/policy"

// Op is the operation of a request. Its numbers are sent between nodes, and are a part of the fingerprints in records:
// append new ones, never renumber.
type Op uint8

// The operations.
const (
	Check Op = iota + 1 // decide and count, all or nothing
	Peek                // decide without counting
	Get                 // the state of the limits, without a decision
	Reset               // put the limits of one key back to rest

	// The following are not for clients of the API.

	OpenSession // open a session: Decision.System names it
	Fetch       // read the document named Document: Decision.System has it
	Swap        // replace the document named Document if its version is Expect: Decision.System has the new version

	// For clients of the API again.

	Count          // count without deciding
	Partial        // take as much of each entry's cost as its limits have room for; denied if one has no room
	Reserve        // like Check, and the units are a hold until they are settled: see Hold
	Settle         // end or extend a hold, or refund a decision: see Settlement
	SetUsed        // Adjustment.Amount units are used from now on
	AddUsed        // Adjustment.Amount more units (fewer, if negative) are used
	Block          // deny everything until Adjustment.Until
	Unblock        // end all blocks, and clear the lockout ladder
	PutOverride    // the key has Adjustment.Override from now on
	DeleteOverride // the key has no override
	ReadAudit      // about a shard: its newest changes; Decision.System has them

	// Parts of an operation on several shards, for the coordinator (see Operation and operation.go).

	AskHome     // home: the recorded outcome, or none
	Charge      // another shard: decide and charge its entries under the operation's id
	Conclude    // home: decide its own entries, and with them the whole, once
	ResolveHome // home: the outcome of the operation; an unknown one is aborted from now on
	FinishLeg   // another shard: execute home's decision on the leg
	Acknowledge // home: a leg has done so

	// For the Redis protocol: a request with one entry and TallyLimits.

	Tally     // apply Request.Tally to the key's tally: Decision.Tallied is the result
	ReadTally // Decision.Tallied, without a change

	// For a person, and for every shard: see eval_forget.go.

	Forget // about a shard: delete its records of the key Adjustment.Forget

	ReadUsage // about a shard: a page of its bills; see UsageRequest and UsageOf

	// For the delivery of events: see event.go.

	ReadEventPage // about a shard: a page of its events; see EventsRequest and EventsOf
	ChangeEvents  // about a shard: acknowledge events, give up, replay dead letters, or record the position of a push
	NoteSpike     // a key is denied far more often than before: see SpikeRequest

	CorrectUsage // Adjustment.Amount units are added to a bill, or taken away: see Correction

	MoveSlot // about a shard: a step of a Move; see MoveRequest

	Lease // return a lease of a key, or take one; see LeaseTerms
)

// decides reports whether limits and blocks allow or deny the operation.
func (o Op) decides() bool { return o == Check || o == Peek || o == Partial || o == Reserve }

// charges reports whether the operation may create a record for a new key.
func (o Op) charges() bool {
	switch o {
	case Check, Count, Partial, Reserve, SetUsed, AddUsed, Block, PutOverride, Charge, Tally, CorrectUsage, Lease:
		return true
	}
	return false
}

// exceeds reports whether the operation counts on a limit even past its quota. If the state cannot hold the whole cost,
// the cost is marked uncounted, since it is then unknown how much to give back.
func (o Op) exceeds(l *policy.Limit) bool {
	//mutant:lifted-bucket-refunds-uncounted
	return o == Count || l.Unlimited && (o == Check || o == Reserve || o == Partial)
}

// spends reports whether the operation uses the costs of its entries.
func (o Op) spends() bool {
	switch o {
	case Check, Peek, Count, Partial, Reserve, Settle, Charge, Conclude:
		return true
	}
	return false
}

// needsKey reports whether the operation is refused on a key that the policy does not know. Changes by hand are not
// refused, and neither are settlements, nor returns of leases.
func (o Op) needsKey() bool { return o.decides() || o == Count || o == Get || o == Lease }

// Changes reports whether the operation changes anything, so that a second copy of it must not be executed. All other
// operations may be repeated freely: a superfluous session expires on its own.
func (o Op) Changes() bool {
	switch o {
	case Peek, Get, OpenSession, Fetch, ReadAudit, AskHome, ReadTally, ReadUsage: //mutant:late-forget-forgets-again
		return false
	//mutant:correction-copied
	case ReadEventPage, ChangeEvents, NoteSpike, MoveSlot, Lease: // a second copy finds that the first has done it
		return false
	}
	return true
}

// answersOnce reports whether the answer of an operation cannot be derived from the later state: which hold it was, how
// much was granted, or which period was corrected. Such an answer is kept beside the session.
func (o Op) answersOnce() bool {
	return o == Reserve || o == Partial || o == Settle || o == CorrectUsage
}

// AboutShard reports whether the operation is about a whole shard, Request.Shard, and not about keys.
func (o Op) AboutShard() bool {
	switch o {
	case ReadAudit, Forget, ReadUsage, ReadEventPage, ChangeEvents, MoveSlot:
		return true
	}
	return false
}

// needsEntries reports whether a request with this operation must have entries. Messages about an operation on several
// shards need none, because the shard has a record of its keys.
func (o Op) needsEntries() bool {
	switch o {
	case OpenSession, Fetch, Swap, AskHome, ResolveHome, FinishLeg, Acknowledge:
		return false
	}
	return !o.AboutShard()
}

func isTally(op Op) bool { return op == Tally || op == ReadTally }

// OfOperation reports whether o is a message of an operation on several shards.
func (o Op) OfOperation() bool { return o >= AskHome && o <= Acknowledge }

// reads reports whether the operation changes nothing on an entry.
func (o Op) reads(e *Entry) bool { return o == Peek || o == Get || o == Check && e.Cost == 0 }

// least returns how many units an entry must have room for to be allowed.
func (o Op) least(e *Entry) uint64 {
	if o == Partial || e.Cost == 0 {
		return 1
	}
	return e.Cost
}

// deeds are the names of changes by hand in audit records.
var deeds = map[Op]string{Reset: "reset", SetUsed: "set", AddUsed: "add", Block: "block", Unblock: "unblock",
	PutOverride: "put_override", DeleteOverride: "delete_override", CorrectUsage: "correct", Forget: "forget"}

// Deed returns the name of a change by hand in audit records, or "" for other operations.
func (o Op) Deed() string { return deeds[o] }
