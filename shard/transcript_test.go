package shard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

var update = flag.Bool("update", false, "write what the code does into the golden files")

// TestTranscripts plays the stories of testdata/*.txt. A story is paragraphs: a comment, a command, "----", and what
// the shard did. Times are durations since 2026-01-05 00:00 UTC. The commands:
//
//	policies            the lines after it are a policies file, in force from here on
//	inline              the lines after it are one too: requests use its policies as inline limits
//	open T [term=N]     an owner opens an epoch
//	at T                a batch; the lines after it are its requests:
//	                      check|peek|count|partial POLICY/KEY [cost=N] [tier=NAME] [+ POLICY/KEY ...] [id=ID] [notafter=T]
//	                        ~POLICY/KEY has the inline limits
//	                      get|reset POLICY/KEY [limit=NAME]
//	                      opensession
//	                      fetch NAME, swap NAME [expect=N] [body=TEXT]
//	                      and on each [in=EPOCH.SEQ.INDEX] [number=N] [acked=N] [retry], its place in a session
//	                    an id v7@T is a UUIDv7 made at T, v7@T/B another one
//	                      those of holds and adjustments: see hold_story_test.go; of tallies: see eval_tally_test.go
//	adopt T N TEXT      the shard adopts version N of the policies
//	system              from here on it is an empty system shard
//	entry T [epoch=N] [seq=N] [term=N] [shard=N] [flip]   an empty batch as some owner wrote it
//	sum T [wrong]       the owner's fingerprint
//	cap N               the shard may hold N records
//	restart             the state goes into a snapshot and comes back
//	backup              the state is kept
//	restore T [keep=POLICY/LIMIT,...]   the shard continues from it at T
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, play(t, string(text)))
		})
	}
}

// golden compares the output with a file, or writes it there with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i, line := range gotLines {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s\n(go test ./shard -update writes it)", file, i+1,
				line, strings.Join(wantLines[min(i, len(wantLines)):min(i+1, len(wantLines))], "\n"))
		}
	}
	if len(wantLines) != len(gotLines) {
		t.Fatalf("%s has %d lines, the code wrote %d", file, len(wantLines), len(gotLines))
	}
}

// play runs a story and returns it with the actual output.
func play(t *testing.T, story string) string {
	s := &storyteller{world: world{TB: t, state: NewState(3), policies: policy.Dev(), term: 1}}
	paragraphs := strings.Split(strings.TrimSpace(story), "\n\n")
	for i, paragraph := range paragraphs {
		told, _, _ := strings.Cut(paragraph, "\n----")
		var command []string
		for line := range strings.Lines(told) {
			if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "#") {
				command = append(command, line)
			}
		}
		if len(command) > 0 {
			s.out.Reset()
			s.run(strings.Fields(command[0]), command[1:])
			paragraphs[i] = told + "\n----\n" + strings.TrimSpace(s.out.String())
		}
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

type storyteller struct {
	world
	out   bytes.Buffer
	along *policy.Set        // the policies for inline limits
	taken map[string]Request // by the name in the story: the settlement of what was taken
	kept  *State             // a backup
}

func (s *storyteller) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *storyteller) run(command, lines []string) {
	switch command[0] {
	case "policies", "inline":
		set, err := policy.Parse("story", []byte("policies:\n"+strings.Join(lines, "\n")))
		if err != nil {
			s.Fatal(err)
		}
		if command[0] == "inline" {
			s.along = set
		} else {
			s.policies = set
		}
		s.printf("%s", strings.Join(set.Names(), ", "))
	case "open":
		s.term = number(option(command, "term"), s.term)
		s.install(EncodeEpochOpen(s.state.id, instant(command[1]), LevelNewest))
	case "at":
		s.batchOf(instant(command[1]), lines)
	case "entry":
		s.entry(command)
	case "sum":
		s.install(EncodeSum(s.next(instant(command[1]))))
	case "adopt":
		s.adopt(instant(command[1]), number(command[2], 0), strings.Join(command[3:], " "))
	case "system":
		s.state = NewState(System)
		s.printf("shard %v", s.state.id)
	case "cap":
		s.most = int(number(command[1], 0))
		s.printf("%d records, full: %v", s.state.Records(), s.Room().full())
	case "restart":
		s.restart()
	case "backup":
		s.kept = s.backup()
		s.printf("of %s", clock(s.kept.Time()))
	case "restore":
		s.restoreAt(instant(command[1]), option(command, "keep"))
	default:
		s.Fatalf("what is %q?", command[0])
	}
}

// install appends an entry and prints its outcome.
func (s *storyteller) install(payload []byte) {
	s.index++
	outcome, err := s.state.Install(payload, s.index, s.term)
	switch {
	case err != nil:
		s.printf("halt: %v", err)
	case outcome.Dropped != NotDropped:
		s.printf("dropped: %v; epoch %d, seq %d", outcome.Dropped, outcome.Epoch, outcome.Seq)
	default:
		s.printf("epoch %d, seq %d, time %s, %d records, sum %016x", outcome.Epoch, outcome.Seq,
			clock(outcome.Time), s.state.Records(), s.state.Sum())
	}
}

func (s *storyteller) entry(command []string) {
	at := s.next(instant(command[1]))
	at.Epoch = number(option(command, "epoch"), at.Epoch)
	at.Seq = number(option(command, "seq"), at.Seq)
	at.Shard = ID(number(option(command, "shard"), uint64(at.Shard)))
	payload := EncodeBatch(at, nil)
	if has(command, "flip") {
		payload[3] ^= 4
	}
	term := s.term
	s.term = number(option(command, "term"), term)
	s.install(payload)
	s.term = term
}

func (s *storyteller) restart() {
	var file bytes.Buffer
	if _, err := s.state.Snapshot().WriteTo(&file); err != nil {
		s.Fatal(err)
	}
	size := file.Len()
	restored, err := Restore(s.state.id, &file)
	if err != nil {
		s.Fatal(err)
	}
	s.state = restored
	s.printf("%d bytes, sum %016x", size, s.state.Sum())
}

func (s *storyteller) restoreAt(at limit.Time, keep string) {
	var kept []Kept
	for _, name := range strings.FieldsFunc(keep, func(r rune) bool { return r == ',' }) {
		p, l, _ := strings.Cut(name, "/")
		kept = append(kept, Kept{p, l})
	}
	s.printf("%+v, %d records, at %s", s.goBack(s.kept, at, kept...), s.state.Records(), clock(s.state.Time()))
}

func (s *storyteller) adopt(now limit.Time, version uint64, text string) {
	p := adoptPut(policy.Revision{Version: version, Text: []byte(text)}, nil)
	s.printf("put %s", effect(&p))
	s.install(EncodeBatch(s.next(now), []Put{p}))
	version, adopted, _ := Adopted(s)
	s.printf("adopted: version %d, %q", version, adopted)
}

func (s *storyteller) batchOf(now limit.Time, lines []string) {
	var requests []Request
	for _, line := range lines {
		requests = append(requests, s.request(strings.Fields(line)))
	}
	at := s.next(now)
	results, puts := Evaluate(s, s.policies, requests, at)
	for i := range results {
		s.tell(&results[i], now)
		s.remember(option(strings.Fields(lines[i]), "as"), &requests[i], &results[i].Decision)
	}
	for i := range puts {
		s.printf("put %s", effect(&puts[i]))
	}
	s.install(EncodeBatch(at, puts))
}

func (s *storyteller) tell(r *Result, now limit.Time) {
	d := &r.Decision
	switch {
	case r.Err != nil:
		s.printf("error %d: %v", r.Err.Code, r.Err)
		return
	case d.Allowed:
		s.out.WriteString("allowed")
	case d.Challenged() && d.RetryAfter == limit.Never:
		s.out.WriteString("challenged")
	case d.Challenged():
		fmt.Fprintf(&s.out, "challenged, or retry after %v", span(d.RetryAfter))
	case d.RetryAfter == limit.Never:
		s.out.WriteString("denied for ever")
	default:
		fmt.Fprintf(&s.out, "denied, retry after %v", span(d.RetryAfter))
	}
	if d.ShadowDenied {
		s.out.WriteString(", would have been denied")
	}
	if d.Replayed && d.Index == 0 {
		s.out.WriteString(", counted before")
	} else if d.Replayed {
		fmt.Fprintf(&s.out, ", decided before at %s as %d of entry %d", clock(d.DecidedAt), d.Index, d.Position.Seq)
	}
	if d.Answer().Session != (Session{}) {
		fmt.Fprintf(&s.out, ", session %s", sessionName(d.Answer().Session))
	}
	if d.Answer().Document.Version != 0 || d.Answer().Document.Body != nil {
		fmt.Fprintf(&s.out, ", version %d, %q", d.Answer().Document.Version, d.Answer().Document.Body)
	}
	s.tellHold(d)
	s.tellTally(d)
	s.out.WriteString("\n")
	s.tellAudit(d)
	for i := range d.Limits {
		s.printf("  %s", status(&d.Limits[i], now))
	}
}

func status(l *LimitStatus, now limit.Time) string {
	text := fmt.Sprintf("%s/%s %s: used %d", l.Policy, l.Key, l.Limit, l.Used) + held(l)
	if l.Granted != 0 {
		text += fmt.Sprintf(", %d granted", l.Granted)
	}
	if l.Unlimited {
		text += ", unlimited"
	} else {
		text += fmt.Sprintf(" of %d, %d left", l.Quota, l.Remaining)
	}
	if l.ResetAt == 0 {
		text += ", never resets"
	} else if l.ResetAt != now {
		text += ", resets at " + clock(l.ResetAt)
	}
	switch {
	case !l.Allowed && l.Shadow:
		text += ", would deny"
	case !l.Allowed:
		text += ", denies"
	}
	return text + blocked(l)
}

func numberIn(c *codec.Codec) (n uint64) {
	c.Uint64(&n)
	return n
}

func textIn(c *codec.Codec) (text string) {
	c.Text(&text)
	return text
}

// effect prints a put: its record and how long it is kept.
func effect(p *Put) string {
	kind, c := p.Key[0], codec.Reader(p.Key[1:])
	switch kind {
	case sessionRecord:
		name := Session{numberIn(&c), numberIn(&c), uint32(numberIn(&c))}
		return fmt.Sprintf("session %s until %s: %s", sessionName(name), clock(p.ForgetAt), remembers(name, p.Value))
	case sessionAnswerRecord:
		name := Session{numberIn(&c), numberIn(&c), uint32(numberIn(&c))}
		return fmt.Sprintf("answer %d of session %s until %s", numberIn(&c), sessionName(name), clock(p.ForgetAt))
	case documentRecord, adoptionRecord:
		return fmt.Sprintf("%s, kept for ever: %v, %q", p.Key, p.ForgetAt == limit.Forever, p.Value)
	}
	if text, ok := endOrAudit(kind, p); ok {
		return text
	}
	_ = textIn(&c) // the namespace
	if kind == answerRecord {
		return fmt.Sprintf("id %s until %s", c.Rest(), clock(p.ForgetAt))
	}
	name := textIn(&c) + "/" + string(c.Rest())
	switch {
	case p.Value == nil:
		return name + " forgotten"
	case p.ForgetAt == limit.Forever:
		return name + " for ever" + limitsIn(p.Value)
	}
	return name + " until " + clock(p.ForgetAt) + limitsIn(p.Value)
}

func sessionName(s Session) string { return fmt.Sprintf("%d.%d.%d", s.Epoch, s.Seq, s.Index) }

// remembers prints a session's record.
func remembers(name Session, value []byte) string {
	s, err := decodeSession(name, value)
	if err != nil {
		panic(err)
	}
	text := fmt.Sprintf("%d finished", s.acked)
	for n := s.acked + 1; n <= s.acked+sessionWindow; n++ {
		if s.counted.has(n) {
			text += fmt.Sprintf(", %d counted", n)
		}
		if s.closed.has(n) {
			text += fmt.Sprintf(", %d closed", n)
		}
	}
	for _, t := range s.tallies {
		text += fmt.Sprintf(", %d:%s", t.number, tallyWords(&t.tallied))
	}
	return text + fmt.Sprintf(", in %d bytes", len(value))
}

func limitsIn(value []byte) string {
	c := counter{policy: inlinePolicy}
	if err := c.decode(value, nil); err != nil {
		panic(err)
	}
	var names []string
	for _, l := range c.limits {
		names = append(names, l.name)
	}
	return ": " + strings.Join(names, ", ")
}

func (s *storyteller) request(words []string) Request {
	if r, ok := s.settlement(words); ok {
		return r
	}
	terms, words := tallyTerms(words)
	r := Request{Namespace: "default", Op: map[string]Op{"check": Check, "peek": Peek, "get": Get, "count": Count,
		"partial": Partial, "opensession": OpenSession, "fetch": Fetch, "swap": Swap, "tally": Tally,
		"readtally": ReadTally}[words[0]], Tally: terms}
	if op, ok := holdOps[words[0]]; ok {
		r.Op = op
		completeHold(&r, words)
	}
	r.ID, r.Limit = identity(option(words, "id")), option(words, "limit")
	r.Expect, r.Body = number(option(words, "expect"), 0), []byte(option(words, "body"))
	r.Number, r.Acked = number(option(words, "number"), 0), number(option(words, "acked"), 0)
	if name := option(words, "in"); name != "" {
		if _, err := fmt.Sscanf(name, "%d.%d.%d", &r.Session.Epoch, &r.Session.Seq, &r.Session.Index); err != nil {
			panic(err)
		}
	}
	if t := option(words, "notafter"); t != "" {
		r.NotAfter = instant(t)
	}
	for _, word := range words[1:] {
		name, value, isOption := strings.Cut(word, "=")
		last := len(r.Entries) - 1
		switch {
		case name == "cost":
			r.Entries[last].Cost = number(value, 0)
		case name == "tier" && r.Op != PutOverride:
			r.Entries[last].Tier = value
		case word == "retry":
			r.Retry = true
		case r.Op == Tally || r.Op == ReadTally:
			if !isOption {
				r.Entries = append(r.Entries, s.entryOf(word))
				r.Entries[0].Limits = TallyLimits
			}
		case r.Op == Fetch || r.Op == Swap:
			if !isOption {
				r.Document = word
			}
		case word != "+" && !isOption:
			r.Entries = append(r.Entries, s.entryOf(word))
		}
	}
	return r
}

// entryOf returns the entry of POLICY/KEY, or of ~POLICY/KEY with that policy's limits inline.
func (s *storyteller) entryOf(word string) Entry {
	name, key, _ := strings.Cut(word, "/")
	label, along := strings.CutPrefix(name, "~")
	e := Entry{Policy: label, Key: key, Cost: 1}
	if along {
		p, _ := s.along.Lookup(label)
		e.Limits = p.Limits
	}
	return e
}

// identity makes a UUIDv7 of v7@T, and returns other ids unchanged.
func identity(id string) string {
	at, isUUID := strings.CutPrefix(id, "v7@")
	if !isUUID {
		return id
	}
	at, node, _ := strings.Cut(at, "/")
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], uint64(instant(at)/1000)<<16)
	raw[6], raw[8] = 0x70, 0x80
	copy(raw[10:], node)
	text := hex.EncodeToString(raw[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func option(words []string, name string) string {
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

func has(words []string, word string) bool {
	return strings.Contains(" "+strings.Join(words, " ")+" ", " "+word+" ")
}

func number(text string, otherwise uint64) uint64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func instant(text string) limit.Time {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return origin + limit.Time(d.Microseconds())
}

func span(s limit.Span) time.Duration { return time.Duration(s) * time.Microsecond }
func clock(t limit.Time) string       { return span(limit.Span(t - origin)).String() }
