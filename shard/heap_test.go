package shard

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// The cap is checked against State.Bytes, so this must match the heap memory of the records. They are written as by
// entries, replaced, grown and partly forgotten, so there is waste in it.
func TestBytesAreThoseOfTheHeap(t *testing.T) {
	const count = 20_000
	counter := func(i, holds int) Put {
		c := counter{key: string(appendCounterKey(nil, "default", "p", fmt.Sprint("user:", i))), policy: inlinePolicy,
			limits: []counted{{name: "a", limit: windowLimit, state: limit.State{T: origin, A: uint64(i)}}}}
		for j := range holds {
			c.addHold(hold{name: holdName(Position{3, 7, uint64(i)}, uint32(j+1)), expires: origin + limit.Time(hour),
				taken: origin, cost: 1, onExpire: policy.OnExpireCancel})
		}
		p, _ := c.appendTo(nil, origin)
		p.ForgetAt = limit.Forever
		return p
	}
	l := &leg{state: legOpen, home: 1, keep: minute, answer: Decision{Position: Position{3, 1, 1}, Index: 1}}
	for name, put := range map[string]func(i, round int) Put{
		"counters": func(i, _ int) Put { return counter(i, 0) },
		"holds":    func(i, round int) Put { return counter(i, 4*round) },
		"short answers": func(i, _ int) Put {
			return Put{Key: string(appendSessionAnswerKey(nil, Session{1, 2, 3}, uint64(i))),
				Record: Record{Value: make([]byte, 40), ForgetAt: limit.Forever}}
		},
		"long ids": func(i, _ int) Put {
			return Put{Key: string(appendAnswerKey(nil, "default", slot.Of("default", "k"),
				fmt.Sprint(strings.Repeat("x", 64), i))),
				Record: Record{Value: make([]byte, 150), ForgetAt: limit.Forever}}
		},
		"legs that wait": func(i, round int) Put {
			l.due = origin + limit.Time(i)*limit.Time(second)/100 + limit.Time(round)
			return Put{Key: fmt.Sprintf("%c\x07default%032d", legRecord, i),
				Record: Record{Value: l.encode(), ForgetAt: limit.Forever}}
		},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := newWorld(t)
		for round := range 3 {
			for i := 0; i < count; i += 500 {
				puts := make([]Put, 500)
				for j := range puts {
					if puts[j] = put(i+j, round); round == 2 && (i+j)%3 == 0 {
						puts[j] = Put{Key: puts[j].Key}
					}
				}
				w.append(EncodeBatch(w.next(origin+1), puts))
			}
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap, bytes := int(after.HeapAlloc)-int(before.HeapAlloc), w.state.Bytes()
		t.Logf("%s: %d bytes of heap a record, %d by State.Bytes",
			name, heap/w.state.Records(), bytes/w.state.Records())
		if heap > bytes+bytes/5 || heap < bytes-bytes/5 {
			t.Errorf("%s take %d bytes of heap, State.Bytes says %d", name, heap, bytes)
		}
		runtime.KeepAlive(w)
	}
}
