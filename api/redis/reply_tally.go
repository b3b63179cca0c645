package redis

import (
	"strconv"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

func replyValue(b []byte, of []command, _ int) []byte {
	return appendInteger(b, of[0].result.Decision.Tallied.Value)
}

func replyDone(b []byte, of []command, _ int) []byte {
	return appendFlag(b, of[0].result.Decision.Tallied.Done)
}

func replyGet(b []byte, of []command, proto int) []byte {
	if t := of[0].result.Decision.Tallied; t.Known {
		return appendNumber(b, t.Value)
	}
	return appendNull(b, proto)
}

func replyGets(b []byte, of []command, proto int) []byte {
	b = appendArray(b, len(of))
	for i := range of {
		b = replyGet(b, of[i:], proto)
	}
	return b
}

// replyCount counts the keys that exist, or existed before a deletion.
func replyCount(b []byte, of []command, _ int) []byte {
	count := int64(0)
	for i := range of {
		if t := of[i].result.Decision.Tallied; t.Done || t.Known {
			count++
		}
	}
	return appendInteger(b, count)
}

// replySet replies with the value that a GETEX has read, with the former value of a command that wants it, with OK for
// another one that has set its counter, and else with null.
func replySet(b []byte, of []command, proto int) []byte {
	switch t := of[0].result.Decision.Tallied; {
	case of[0].flags&onlyReads != 0:
		return replyGet(b, of, proto)
	case of[0].flags&wantsOld == 0 && t.Done:
		return appendStatus(b, "OK")
	case of[0].flags&wantsOld != 0 && t.Was:
		return appendNumber(b, t.Before)
	}
	return appendNull(b, proto)
}

// replyTTL replies -2 if there is no counter and -1 if it does not end. Seconds are rounded to the nearest, as in
// Redis.
func replyTTL(b []byte, of []command, _ int) []byte {
	d := &of[0].result.Decision
	left := leftMS(d)
	if left < 0 {
		return appendInteger(b, left)
	}
	switch of[0].verb.name {
	case "pttl":
		return appendInteger(b, left)
	case "ttl":
		return appendInteger(b, (left+500)/1000)
	case "pexpiretime":
		return appendInteger(b, inMS(d.Tallied.EndsAt))
	}
	return appendInteger(b, (inMS(d.Tallied.EndsAt)+500)/1000)
}

// leftMS returns how long a counter lives on, in milliseconds; -2 if there is none, and -1 if it does not end.
func leftMS(d *shard.Decision) int64 {
	switch {
	case !d.Tallied.Known:
		return -2
	case d.Tallied.EndsAt == 0:
		return -1
	}
	return inMS(d.Tallied.EndsAt - d.DecidedAt)
}

// inMS returns a time, or a difference of times, in milliseconds, rounded to the nearest.
func inMS(t limit.Time) int64 { return (int64(t) + int64(millisecond)/2) / int64(millisecond) }

// replyLength replies with the number of characters of the value.
func replyLength(b []byte, of []command, _ int) []byte {
	if !of[0].result.Decision.Tallied.Known {
		return appendInteger(b, 0)
	}
	return appendInteger(b, int64(len(strconv.FormatInt(of[0].result.Decision.Tallied.Value, 10))))
}

func replyType(b []byte, of []command, _ int) []byte {
	if of[0].result.Decision.Tallied.Known {
		return appendStatus(b, "string")
	}
	return appendStatus(b, "none")
}
