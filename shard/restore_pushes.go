package shard

import (
	"maps"
	"slices"
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
