package actor

import "github.com/stint-io/stint/shard"

// Errors of requests that were certainly not applied.
var (
	errFull = &shard.Error{Code: shard.Overloaded, Message: "the shard's mailbox is full; ask again",
		RetryAfter: 50e3}
	errTooShort = &shard.Error{Code: shard.Overloaded, Message: "the deadline is nearer than a commit takes; " +
		"nothing was counted", RetryAfter: 10e3}
	errDeadline = &shard.Error{Code: shard.Unavailable,
		Message: "the deadline passed before the request was decided; nothing was counted", RetryAfter: 100e3}
	errDraining = &shard.Error{Code: shard.Draining, Message: "the node is stopping; ask again", RetryAfter: 500e3}
	errNotOwner = &shard.Error{Code: shard.NotOwner, Message: "this node does not lead the shard; ask again",
		RetryAfter: 100e3}
	errNoEpoch = &shard.Error{Code: shard.Unavailable, Message: "the shard has no open epoch; " +
		"nothing was counted, ask again", RetryAfter: 100e3}
	errDropped = &shard.Error{Code: shard.NotOwner, Message: "another owner took the shard over; nothing was counted",
		RetryAfter: 100e3}

	errHandingOver = &shard.Error{Code: shard.NotOwner, Message: "this node is handing the shard over; ask again",
		RetryAfter: 50e3}
	errNoPolicies = &shard.Error{Code: shard.Unavailable,
		Message: "the shard has no policies yet; nothing was counted, ask again", RetryAfter: 100e3}
	errUnreadable = &shard.Error{Code: shard.Unavailable,
		Message: "this node cannot read the shard's policies; nothing was counted, ask again", RetryAfter: 500e3}
	errNoTime = &shard.Error{Code: shard.Unavailable, Message: "this node has not measured the time of a majority " +
		"whose clocks agree; nothing was counted, ask again", RetryAfter: 100e3}

	errTooLarge = &shard.Error{Code: shard.Overloaded, Message: "more requests at once than the shard's mailbox holds"}
)

// errUnknown is the error of requests that may have been applied.
var errUnknown = &shard.Error{Code: shard.UnknownOutcome,
	Message: "the outcome is not known: it may have been counted; ask again with the same idempotency_id"}
