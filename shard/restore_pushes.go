package shard

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/stint-io/stint/limit"
)

// pushes is how far the bills of the shards of a backup were pushed. A shard of the new cluster gets the least position
// of those shards that had any of its bills. So no bill is left out; one that is pushed twice has one id. A shard that
// gets the bills of one shard only goes on where that one was, since a walk goes from slot to slot.
type pushes struct {
	found map[string]map[ID]Record // by key, and by shard of the backup
	bills map[ID]map[ID]bool       // by shard of the new cluster: the shards of the backup that had its bills
}

// note gathers a position.
func (p *pushes) note(source ID, key string, r Record) {
	if p.found[key] == nil {
		p.found[key] = map[ID]Record{}
	}
	p.found[key][source] = r
}

// billed notes that a bill goes from one shard to another.
func (p *pushes) billed(source, to ID) {
	if p.bills[to] == nil {
		p.bills[to] = map[ID]bool{}
	}
	p.bills[to][source] = true
}

// of returns the positions of one of the shards of the new cluster.
func (p *pushes) of(to ID, shards int) (puts []Put) {
	for _, key := range slices.Sorted(maps.Keys(p.found)) {
		found := p.found[key]
		from := slices.Sorted(maps.Keys(p.bills[to]))
		if len(from) == 0 {
			from = slices.Sorted(maps.Keys(found))
		}
		own := func(source ID) bool { return int(source)%shards == int(to) }
		puts = append(puts, Put{Key: key, Record: leastOf(found, from, own)})
	}
	return puts
}

// leastOf returns the record with the least position of some shards, and with the skipped bills of those that are its
// own. A record that cannot be read is taken as it is: its pusher will say so.
func leastOf(found map[ID]Record, from []ID, own func(source ID) bool) Record {
	var until limit.Time
	var version uint64
	positions := make(map[ID]PushPosition, len(found))
	skipped := SkippedBills{}
	for _, source := range slices.Sorted(maps.Keys(found)) {
		r := found[source]
		var at PushPosition
		p, err := pushOf("", "", r, true)
		if err == nil {
			err = json.Unmarshal(p.Position, &at)
		}
		if err != nil {
			return r
		}
		until, version = max(until, p.Until), max(version, p.Version)
		if positions[source] = at; at.Skipped != nil && own(source) { //mutant:skipped-bill-comes-twice
			skipped.Add(*at.Skipped, SkippedNewest)
		}
	}
	least := positions[from[0]] // of a shard without a position: from the beginning
	for _, source := range from[1:] {
		least = least.least(positions[source])
	}
	if least.Skipped = nil; skipped.Bills > 0 {
		least.Skipped = &skipped
	}
	text, err := least.Encode()
	if err != nil {
		panic(err) // it is plain data
	}
	return Record{Value: (&Push{Version: version, Position: text}).encode(), ForgetAt: until}
}
