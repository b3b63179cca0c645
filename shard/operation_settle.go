package shard

// expireRuling settles a hold that nobody has settled in its time: what is home's at once, the legs when they hear of
// it.
func (e *evaluation) expireRuling(key string, r *Request, u *ruling) {
	e.expirePart(r.Namespace, r.Operation.ID, u.entries)
	u.settle(nil)
	e.writeRuling(key, u)
}

// settle makes a committed or held operation one that is settled, which every leg is still to hear.
func (u *ruling) settle(how *settled) {
	u.state, u.settled = OperationSettled, how
	for i := range u.legs {
		u.legs[i].pending = true
	}
}

func (e *evaluation) settleLeg(key string, r *Request, l *leg, d Decision) Result {
	if r.Operation.Verdict.Settled == nil {
		e.expirePart(r.Namespace, r.Operation.ID, l.entries)
	}
	l.state = legSettled
	e.writeLeg(key, l)
	return Result{Decision: d}
}

func (e *evaluation) settleHome(r *Request) Result {
	return Result{Err: &Error{Code: NotBuilt, Message: "settling across shards is not built yet"}}
}
