package shard

import "github.com/stint-io/stint/limit"

func stillCounts(l limit.Limit, s limit.State, taken, now limit.Time) bool { return true }

func setUsed(l limit.Limit, s limit.State, used uint64, now limit.Time) limit.State {
	if used == 0 {
		return limit.State{}
	}
	s, _ = limit.Add(l, limit.State{}, min(used, limit.MaxCost), now)
	return s
}
