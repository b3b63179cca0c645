package shard

import "github.com/stint-io/stint/limit"

// Happening is a change that a batch makes besides its answers, for watchers. One of Fired, Lockout and Change is set.
type Happening struct {
	At                     limit.Time
	Namespace, Policy, Key string

	Fired   *FiredThreshold // a threshold of a limit of the key
	Lockout *BegunLockout
	Change  *AuditRecord // a change of the key by hand
}

// BegunLockout is a block that the ladder of a key began.
type BegunLockout struct {
	Level uint32 // blocks of the ladder so far, including this one
	Until limit.Time
}

// Happenings lists the changes that the effects of a batch make. before is the view on which it was evaluated, without
// them. It reads records that the batch wrote anyway, so that an unwatched batch pays nothing. It leaves out unreadable
// records.
func Happenings(before Records, puts []Put, at Stamp) (all []Happening) {
	for i := range puts {
		p := &puts[i]
		if p.Value == nil {
			continue
		}
		switch p.Key[0] {
		case eventRecord, pastEventRecord:
			// An event that a sink has taken is written again, in a later batch: no two have the same instant.
			//mutant:taken-event-fires-again
			if e, err := decodeEvent(p.Value); err == nil && e.At == at.Now && e.Kind == EventThreshold {
				all = append(all, Happening{At: e.At, Namespace: e.Namespace, Policy: e.Policy, Key: e.Key,
					Fired: &FiredThreshold{
						Policy:  e.Policy,
						Limit:   e.Limit,
						Key:     e.Key,
						Units:   e.Units,
						Percent: e.Threshold.Percent,
						Starts:  e.Start,
						Ends:    e.End,
					}})
			}
		case auditRecord:
			if a, err := decodeAudit(p.Value); err == nil && a.At == at.Now && a.Key != "" {
				all = append(all, Happening{At: a.At, Namespace: a.Namespace, Policy: a.Policy, Key: a.Key, Change: &a})
			}
		case counterRecord:
			if l := begunLockout(before, p, at.Now); l != nil {
				namespace, policy, key, _ := readKeyOf(p.Key)
				all = append(all, Happening{At: at.Now, Namespace: namespace, Policy: policy, Key: key, Lockout: l})
			}
		}
	}
	return all
}

// begunLockout compares the ladders in two records of a counter. It returns nil if no block has begun.
func begunLockout(before Records, p *Put, now limit.Time) *BegunLockout {
	after := ladderIn(p.Value)
	// Level 0: the restore of the shard blocks keys that may have lost their ladder.
	if after.level == 0 || after.blockedUntil <= now {
		return nil
	}
	record, _ := before.Lookup(p.Key)
	if after.blockedUntil <= ladderIn(record.Value).blockedUntil { //mutant:block-begins-again
		return nil
	}
	return &BegunLockout{Level: after.level, Until: after.blockedUntil}
}

// ladderIn returns the ladder in the record of a counter.
func ladderIn(value []byte) ladder {
	if len(value) == 0 || value[0]&counterExtra == 0 {
		return ladder{}
	}
	c := counter{policy: inlinePolicy}
	if err := c.decode(value, nil); err != nil || c.extras == nil {
		return ladder{}
	}
	return c.extras.ladder
}
