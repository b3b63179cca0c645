package actor

import (
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Observer receives the events of an actor. nil functions are not called. They are called from the actor's loop and
// must not block.
type Observer struct {
	// Batch is called for every installed batch with its requests, the number of records that it changed, and its size
	// in the log.
	Batch func(requests, effects, bytes int)
	// Commit is called with the time that an installed batch, sum entry or adoption took from its proposal to its
	// outcome.
	Commit func(took time.Duration)
	// Happened is called with the changes of keys in an installed batch, if it was Watched when it was evaluated. It may
	// keep the slice.
	Happened func([]shard.Happening)
	// Epoch is called with the number of an epoch when it opens, and with 0 when it ends, at the latest when the actor
	// ends.
	Epoch func(epoch uint64)
	// TimeStep is called when no epoch is opened because the clock is more than 24 h past the last stamp (R18).
	TimeStep func(last, now limit.Time)
	// Frozen is called, every 10 s at most, while shard time stands still because this owner's clock is more than 10 s
	// behind the last stamp: windows do not pass until the clock has caught up (R18).
	Frozen func(behind time.Duration)
	// Full is called, every 10 s at most, when requests were refused because there is no room for records
	// (Config.Room).
	Full func()
	// Capped is called, every 10 s at most, when new keys were refused because their policy or namespace is at its cap.
	Capped func(refusal *shard.Error)
	// Fault is called, every 10 s at most, when a defect of the program made a request fail. Only that request failed
	// (shard.Fault).
	Fault func(met *shard.Error)
	// Unreadable is called, every 10 s at most, while no epoch is opened because the policies in the log cannot be
	// parsed here, usually because the program is too old.
	Unreadable func(version uint64, err error)
	// ClockOff is called, every 10 s at most, while this machine's clock is more than 200 ms off the reference.
	ClockOff func(ahead time.Duration)
	// ClockSet is called, every 10 min at most, while the clock of an only voter differs by more than 200 ms from the
	// time that has passed since the actor began: the clock was set.
	ClockSet func(ahead time.Duration)
	// ClockWrong is called, every 10 s at most, while this machine's clock is more than 10 s off the reference: the
	// node should stop.
	ClockWrong func(ahead time.Duration)
	// HandOver is called, every 5 s at most, while another node should own the shard, with the reason. Call Handover
	// from another goroutine.
	HandOver func(reason string)
}
