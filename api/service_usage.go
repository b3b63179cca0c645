package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/wire"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	usageSizeDefault = 1000
	usageSizeMax     = 10_000
	// usageReads bounds the pages of shards that one call reads: each is a commit.
	usageReads = 64
)

// listUsage reads one shard after the other, each in the order of a scan, so the next page continues where a page ends.
// It keeps no state: the token holds the position.
func (s observeService) listUsage(
	ctx context.Context, m *stintv1.ListUsageRequest,
) (*stintv1.ListUsageResponse, error) {
	wanted, err := usageWanted(m)
	err = cmp.Or(err, permitted(callerIn(ctx), auth.Usage,
		auth.Target{Namespace: wanted.namespace, Policy: m.Policy, Key: m.Key}))
	if err != nil {
		return nil, err
	}
	shards := uint32(s.Shards())
	if shards == 0 {
		return nil, errNoCluster
	}
	at, err := usageTokenOf(m.PageToken, shards)
	if err != nil {
		return nil, err
	}
	if m.Key != "" {
		if wanted.query.Key, err = s.Keys.hash(wanted.namespace, m.Key); err != nil {
			return nil, err
		}
		at.shard = shard.Of(s.Slots(), wanted.namespace, wanted.query.Key)
	}
	ledger, err := s.Cluster.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.ListUsageResponse{}
	for range usageReads {
		wanted.query.From = at.from
		page, slots, err := usagePage(ctx, s.Decider, wanted.namespace, at.shard, wanted.query)
		if err != nil {
			return nil, err
		}
		for i := range page.Periods {
			response.Records = append(response.Records,
				usageMessage(ledger, &page.Periods[i], m.Key, page.Through, s.policies()))
		}
		for i := range page.Unreadable {
			response.Unreadable = append(response.Unreadable,
				&stintv1.UnreadableUsage{Policy: page.Unreadable[i].Policy, Key: page.Unreadable[i].Key})
		}
		at.read(&page, slots)
		if at.shard == shard.ID(shards) || m.Key != "" && page.Next == (shard.UsagePlace{}) {
			if m.Key == "" && at.met != slot.All() { //mutant:bills-of-a-moved-slot-left-out
				return nil, errSlotsMoved
			}
			response.CompleteThrough = timestampOf(at.through)
			return response, nil
		}
		if len(response.Records) >= wanted.size {
			break
		}
	}
	response.CompleteThrough, response.NextPageToken = timestampOf(at.through), at.String()
	return response, nil
}

// usagePage reads one page of one shard, and the slots that it is about. A page about one key has the key's slot.
func usagePage(ctx context.Context, decider Decider, namespace string, id shard.ID, q shard.UsageQuery) (
	page shard.UsagePage, slots slot.Set, err error) {
	d, err := decide(ctx, decider, shard.UsageRequest(namespace, id, q))
	if err != nil {
		return page, slots, err
	}
	slots = d.Slots()
	if q.Key != "" && !slots.Has(slot.Of(namespace, q.Key)) { //mutant:moved-key-has-no-bill
		return page, slots, errSlotsMoved
	}
	page, err = shard.UsageOf(namespace, d)
	return page, slots, err
}

// usageFilter is a checked request.
type usageFilter struct {
	namespace string
	query     shard.UsageQuery // without the key, until it is hashed
	size      int              // records after which no more pages of shards are read; the answer may have more
}

func usageWanted(m *stintv1.ListUsageRequest) (f usageFilter, err error) {
	namespace, wrongNamespace := namespaceOf(m.Namespace)
	size, wrongSize := countOf("page_size", m.PageSize, usageSizeDefault, usageSizeMax)
	f = usageFilter{namespace, shard.UsageQuery{Policy: m.Policy, Starts: m.Period}, size}
	return f, cmp.Or(wrongNamespace, invalid("policy", optional(m.Policy, policy.NameProblem)),
		invalid("key", optional(m.Key, shard.KeyProblem)), invalid("period", optional(m.Period, shard.StartsProblem)),
		wrongSize)
}

// usageToken is the position of a listing. Its text is the only state between two pages.
type usageToken struct {
	shard   shard.ID         // that is read next; beyond the last one: the end
	from    shard.UsagePlace // in that shard
	through limit.Time       // the earliest Through of all pages so far; 0 if there was none
	slotsMet
}

const usageTokenForm = "1-%d-%x-%d"

// String implements fmt.Stringer.
func (t usageToken) String() string {
	return strings.Join([]string{fmt.Sprintf(usageTokenForm, t.shard, t.from.Place, t.through), t.met.String(),
		t.here.String(), hex.EncodeToString([]byte(t.from.After))}, "-")
}

// usageTokenOf reads the output of String; "" is the beginning. The token is of the caller: it is checked in full.
func usageTokenOf(text string, shards uint32) (t usageToken, err error) {
	if text == "" {
		return t, nil
	}
	wrong := shard.Invalidf("page_token", "is none that this cluster has given: begin without one")
	parts := strings.Split(text, "-")
	if len(parts) != 7 {
		return t, wrong
	}
	_, err = fmt.Sscanf(text, usageTokenForm, &t.shard, &t.from.Place, &t.through)
	met, areSlots := slot.ParseSet(parts[4])
	here, areToo := slot.ParseSet(parts[5])
	after, notHex := hex.DecodeString(parts[6])
	t.met, t.here, t.from.After = met, here, string(after)
	if err != nil || !areSlots || !areToo || notHex != nil || t.String() != text || uint32(t.shard) >= shards {
		return t, wrong
	}
	return t, nil
}

// read moves on past a page, which is about some slots.
func (t *usageToken) read(page *shard.UsagePage, slots slot.Set) {
	if t.through == 0 || page.Through < t.through {
		t.through = page.Through
	}
	last := page.Next == (shard.UsagePlace{})
	t.slotsMet.read(&slots, t.from == (shard.UsagePlace{}), last)
	if t.from = page.Next; last {
		t.shard++
	}
}

// usageMessage translates a period as it is at an instant. A hash in place of the requested key is shown as that key.
func usageMessage(ledger string, u *shard.Usage, key string, at limit.Time, policies *policy.Set) *stintv1.UsageRecord {
	m := &stintv1.UsageRecord{
		Id:          UsageID(ledger, u),
		Namespace:   u.Namespace,
		Policy:      u.Policy,
		Meter:       u.Meter,
		Key:         u.Key,
		Start:       timestampOf(u.Start),
		End:         timestampOf(u.End),
		State:       stintv1.UsageState_USAGE_STATE_FINAL,
		Units:       u.Units,
		Credits:     u.Credits,
		Corrections: u.Corrections,
		Revision:    u.Revision,
		Recovered:   u.Recovered,
	}
	if key != "" {
		m.Key = key
	}
	if p, known := policies.Lookup(u.Policy); known && p.Meter != nil && p.Meter.Name == u.Meter &&
		p.Meter.Cycle.Zone.String() != time.UTC.String() {
		// Otherwise it began in an earlier time zone of the meter.
		if start, _ := p.Meter.Cycle.Period(u.Start); start == u.Start {
			m.TimeZone = p.Meter.Cycle.Zone.String()
		}
	}
	switch {
	case at < u.End:
		m.State = stintv1.UsageState_USAGE_STATE_OPEN
	case at < u.Final:
		m.State = stintv1.UsageState_USAGE_STATE_CLOSED
	}
	return m
}

// UsageJSON returns a final bill in the JSON form of listUsage: sinks and lists have one form.
func UsageJSON(ledger string, u *shard.Usage, policies *policy.Set) json.RawMessage {
	text, err := wire.MarshalJSON(nil, usageMessage(ledger, u, "", u.Final, policies))
	if err != nil {
		panic(err) // keys are UTF-8, and periods those of calendars
	}
	return text
}

// UsageID returns the permanent id of a bill's period, from the ledger, which a restore keeps, and the key as stored.
// The function never changes.
func UsageID(ledger string, u *shard.Usage) string {
	var b []byte
	for _, part := range []string{ledger, u.Namespace, u.Policy, u.Meter, u.Key} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(binary.AppendUvarint(b, uint64(u.Start)))
	return "use_" + hex.EncodeToString(sum[:16])
}
