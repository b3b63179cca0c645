package connlimit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

func TestPartsNeverAddUpToMoreThanThereIs(t *testing.T) {
	for descriptors := uint64(Least); descriptors < 3_000_000; descriptors += descriptors/7 + 1 {
		s := Share(descriptors)
		// ports, directories, bolt's file, the log's newest file, and refused connections
		const others = 64 + 2*leavingMost
		if sum := s.API + s.Redis + 2*s.Peers + s.Gossip + s.Tables + others; uint64(sum) > descriptors &&
			descriptors >= 1024 {
			t.Errorf("%d of %d are given away: %+v", sum, descriptors, s)
		}
		if own := min(ownMost, int(descriptors)/2); uint64(s.API+s.Redis+own) > descriptors {
			t.Errorf("of %d descriptors, %+v leaves less than %d", descriptors, s, own)
		}
	}
	for descriptors, want := range map[uint64]Shares{
		256:       {API: 64, Redis: 64, Peers: 32, Gossip: 8, Tables: 32},
		1024:      {API: 256, Redis: 256, Peers: 128, Gossip: 32, Tables: 128},
		20_000:    {API: 9488, Redis: 9488, Peers: 256, Gossip: 64, Tables: 256},
		1_048_576: {API: 10_000, Redis: 10_000, Peers: 4096, Gossip: 64, Tables: 1000},
		1 << 63:   {API: 10_000, Redis: 10_000, Peers: 4096, Gossip: 64, Tables: 1000},
	} {
		if got := Share(descriptors); got != want {
			t.Errorf("%d: %+v, want %+v", descriptors, got, want)
		}
	}
}

func TestOneAddressHoldsAQuarter(t *testing.T) {
	from := func(text string) net.Addr {
		ip := net.ParseIP(text)
		return &net.TCPAddr{IP: ip, Port: 1}
	}
	tally := NewTally(40)
	for range 10 {
		if why := tally.Enter(from("192.0.2.1")); why != Room {
			t.Fatal(why)
		}
	}
	if why := tally.Enter(from("::ffff:192.0.2.1")); why != Greedy {
		t.Errorf("the eleventh of the same address: %q", why)
	}
	for i := range 10 { // one client has all addresses of a /64
		if why := tally.Enter(from(fmt.Sprintf("2001:db8:0:1::%x", i+1))); why != Room {
			t.Fatal(why)
		}
	}
	if why := tally.Enter(from("2001:db8:0:1:ffff::1")); why != Greedy {
		t.Errorf("the eleventh of the same network: %q", why)
	}
	if why := tally.Enter(from("2001:db8:0:2::1")); why != Room {
		t.Errorf("the first of another network: %q", why)
	}
	for range 19 {
		if why := tally.Enter(from("127.0.0.1")); why != Room {
			t.Fatalf("of this machine: %q", why)
		}
	}
	if why := tally.Enter(from("192.0.2.2")); why != Full {
		t.Errorf("the 41st: %q", why)
	}
	tally.Leave(from("192.0.2.1"))
	if why := tally.Enter(from("192.0.2.1")); why != Room {
		t.Errorf("after one has left: %q", why)
	}
	for range 10 {
		tally.Leave(from("192.0.2.1"))
	}
	if len(tally.of) != 3 { // with that of this machine, and of all who are not told apart
		t.Errorf("it remembers %v", tally.of)
	}
}

// clock is a time that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type seen struct {
	mu      sync.Mutex
	open    int
	refused map[string]int
	cut     int
}

func (s *seen) Connected(_ string, open int) { s.mu.Lock(); defer s.mu.Unlock(); s.open = open }
func (s *seen) Refused(_, why string)        { s.mu.Lock(); defer s.mu.Unlock(); s.refused[why]++ }
func (s *seen) Cut(_ string, n int)          { s.mu.Lock(); defer s.mu.Unlock(); s.cut += n }

func (s *seen) refusedAs(why string) int { s.mu.Lock(); defer s.mu.Unlock(); return s.refused[why] }

func (s *seen) is(open, full, cut int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == open && s.refused["full"] == full && s.cut == cut
}

// door is a port with a bound that echoes the data of every connection.
type door struct {
	t     *testing.T
	addr  string
	clock *clock
	seen  *seen
	log   *bytes.Buffer
	limit *Limit
	asks  atomic.Bool // whether clients must authenticate; a line "I am Ann" does
}

func openDoor(t *testing.T, most int) *door {
	return openDoorTelling(t, most, Refusal{Text: []byte("-full\n")}, time.Minute)
}

func openDoorTelling(t *testing.T, most int, refusal Refusal, patience time.Duration) *door {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, addr: inner.Addr().String(), clock: &clock{now: time.Unix(1_800_000_000, 0)}, log: &bytes.Buffer{},
		seen: &seen{refused: map[string]int{}}}
	d.limit = New(Config{Port: "test", Most: most, Logger: slog.New(slog.NewTextHandler(d.log, nil)), Observer: d.seen,
		Now: d.clock.Now, AsksForProof: d.asks.Load})
	d.limit.patient = patience
	listener := d.limit.Listen(inner, refusal)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if _, ok := c.(syscall.Conn); !ok {
				t.Error("a connection lost what sockets can do")
			}
			serving.Go(func() { defer c.Close(); echo(c) })
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return d
}

// echo answers the lines of a connection.
func echo(c net.Conn) {
	proven := Prover(wrapped{c})
	for lines := bufio.NewScanner(onlyReader{c}); lines.Scan(); {
		if lines.Text() == "I am Ann" {
			proven()
		}
		fmt.Fprintln(onlyWriter{c}, lines.Text())
	}
}

// wrapped is a connection as TLS wraps it.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// onlyReader and onlyWriter make the bytes pass through Read and Write, as in a server.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }

func (d *door) dial() net.Conn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	return c
}

// talks reports whether a connection is answered.
func (d *door) talks(c net.Conn) bool {
	d.t.Helper()
	if _, err := c.Write([]byte("x\n")); err != nil {
		return false
	}
	heard := make([]byte, 2)
	_, err := io.ReadFull(c, heard)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Fatal("waited in vain")
	}
	return err == nil && string(heard) == "x\n"
}

func TestWhoDoesNotFitIsToldSo(t *testing.T) {
	d := openDoor(t, 20)
	var inside []net.Conn
	for range 20 {
		c := d.dial()
		if !d.talks(c) {
			t.Fatal("refused too early")
		}
		inside = append(inside, c)
	}
	for range 5 {
		heard, _ := io.ReadAll(d.dial())
		if string(heard) != "-full\n" {
			t.Errorf("it hears %q", heard)
		}
	}
	if !d.seen.is(20, 5, 0) {
		t.Errorf("%+v", d.seen)
	}
	inside[0].Close()
	await.Until(t, "one has left", func() bool { return d.seen.is(19, 5, 0) })
	if !d.talks(d.dial()) {
		t.Error("there is room again, and it is refused")
	}
	if lines := bytes.Count(d.log.Bytes(), []byte("\n")); lines != 1 {
		t.Errorf("%d lines about five refusals:\n%s", lines, d.log)
	}
}

// says writes a line and reads the answer.
func (d *door) says(c net.Conn, line string) bool {
	d.t.Helper()
	fmt.Fprintln(c, line)
	heard, err := bufio.NewReader(c).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Fatal("waited in vain")
	}
	return heard == line+"\n"
}

// ann connects an authenticated client. The proof is known when the second line is answered.
func (d *door) ann() net.Conn {
	d.t.Helper()
	c := d.dial()
	for range 2 {
		if !d.says(c, "I am Ann") {
			d.t.Fatal("refused too early")
		}
	}
	return c
}

// Of sixteen connections unauthenticated clients hold two. They push out each other, and no authenticated one.
func TestStrangersPushOutEachOther(t *testing.T) {
	d := openDoor(t, 16)
	early := d.dial() // before clients had to authenticate
	if !d.says(early, "x") {
		t.Fatal("refused too early")
	}
	d.asks.Store(true)
	ann := d.ann()
	var strangers []net.Conn
	for range 20 {
		c := d.dial()
		if !d.says(c, "x") {
			t.Fatal("the newest stranger is refused")
		}
		strangers = append(strangers, c)
		d.clock.pass(quietLeast)
	}
	for _, c := range strangers[:18] {
		if heard, err := io.ReadAll(c); len(heard) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a stranger of before hears %q, %v", heard, err)
		}
	}
	for _, c := range append(strangers[18:], early, ann) {
		if !d.says(c, "x") {
			t.Error("one is pushed out that should not be")
		}
	}
	await.Until(t, "four are left", func() bool { return d.seen.is(4, 0, 0) })
	if n := d.seen.refusedAs("unproven"); n != 18 || d.limit.Unproven() != 2 {
		t.Errorf("%d are said to be pushed out, %d have not proven anything", n, d.limit.Unproven())
	}
	for _, c := range strangers[18:] {
		c.Close()
	}
	await.Until(t, "the strangers have left", func() bool { return d.limit.Unproven() == 0 })
}

// A flood fills nine tenths of the port for a moment. Clients that authenticate get in all the time, and stay.
func TestAFloodOfStrangersLeavesRoomForOthers(t *testing.T) {
	d := openDoor(t, 40)
	d.asks.Store(true)
	ann := d.ann()
	for i := range 100 {
		if !d.says(d.dial(), "x") {
			t.Fatal("a stranger is refused in place of an older one")
		}
		if n := d.limit.Unproven(); n != min(i+1, 34) { // with hers, that is a connection less than nine tenths
			t.Fatalf("%d strangers after %d have come", n, i+1)
		}
	}
	friend := d.dial()
	for _, c := range []net.Conn{ann, friend} {
		if !d.says(c, "I am Ann") || !d.says(c, "x") {
			t.Error("one is pushed out that should not be")
		}
	}
	if full := d.seen.refusedAs("full"); full > 0 {
		t.Errorf("%d found the port full", full)
	}
}

// An authenticated client that is silent makes no room for unauthenticated ones.
func TestStrangersPushOutNobodyWhoIsSilent(t *testing.T) {
	d := openDoor(t, 40)
	d.asks.Store(true)
	var friends []net.Conn
	for range 24 {
		friends = append(friends, d.ann())
	}
	d.clock.pass(2 * quietLeast)
	for range 100 {
		if !d.says(d.dial(), "x") {
			t.Fatal("a stranger is refused in place of an older one")
		}
	}
	for _, c := range friends {
		if !d.says(c, "x") {
			t.Fatal("one is pushed out that should not be")
		}
	}
}

// Most clients send a request before they read anything. They must still read the reason.
func TestWhoSendsAndIsRefusedReadsWhy(t *testing.T) {
	d := openDoor(t, 20)
	for range 20 {
		if !d.talks(d.dial()) {
			t.Fatal("refused too early")
		}
	}
	for refused := 1; refused <= 40; refused++ { // more than may be leaving at once
		c := d.dial()
		await.Until(t, "it is refused", func() bool { return d.seen.is(20, refused, 0) })
		for range 3 {
			if _, err := c.Write([]byte("a request\n")); err != nil {
				t.Fatalf("refusal %d: a client that sends sees: %v", refused, err)
			}
		}
		if heard, err := io.ReadAll(c); string(heard) != "-full\n" || err != nil {
			t.Fatalf("refusal %d: it hears %q, %v", refused, heard, err)
		}
	}
	if n := d.leaving(); n > 1 { // a sixteenth of 20
		t.Errorf("%d connections are kept", n)
	}
}

func (d *door) leaving() int {
	d.limit.mu.Lock()
	defer d.limit.mu.Unlock()
	return len(d.limit.leaving)
}

// Go's HTTP client, for one, takes an answer before its request as unsolicited, and fails the request.
func TestARefusalMayWaitForTheRequest(t *testing.T) {
	d := openDoorTelling(t, 20, Refusal{Text: []byte("-full\n"), AfterRequest: true}, time.Minute)
	for range 20 {
		if !d.talks(d.dial()) {
			t.Fatal("refused too early")
		}
	}
	early := d.dial()
	await.Until(t, "the refused connection is waited for", func() bool { return d.leaving() == 1 && reads("turnAway") })
	told := true
	d.limit.leaving[0].once.Do(func() { told = false })
	if told {
		t.Fatal("it is told before its request")
	}
	early.Close()
	await.Until(t, "it has left", func() bool { return d.leaving() == 0 })
	c := d.dial()
	if _, err := c.Write([]byte("a request\n")); err != nil {
		t.Fatal(err)
	}
	if heard, err := io.ReadAll(c); string(heard) != "-full\n" || err != nil {
		t.Fatalf("it hears %q, %v", heard, err)
	}
	c.Close()
	await.Until(t, "it has left", func() bool { return d.leaving() == 0 })

	// Others wait for the same: the first is answered at once.
	silent := d.dial()
	await.Until(t, "it is refused", func() bool { return d.seen.is(20, 3, 0) })
	d.dial()
	if heard, err := io.ReadAll(silent); string(heard) != "-full\n" || err != nil {
		t.Fatalf("who makes room for another hears %q, %v", heard, err)
	}
}

// reads reports whether a goroutine that has come through a function waits for bytes.
func reads(function string) bool {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "[IO wait") && strings.Contains(stack, function) {
			return true
		}
	}
	return false
}

// A refused connection is kept only for a moment, even if its client does nothing.
func TestWhoIsRefusedAndStaysIsClosed(t *testing.T) {
	for _, after := range []bool{false, true} {
		d := openDoorTelling(t, 20, Refusal{Text: []byte("-full\n"), AfterRequest: after}, time.Millisecond)
		for range 20 {
			if !d.talks(d.dial()) {
				t.Fatal("refused too early")
			}
		}
		c := d.dial()
		if heard, err := io.ReadAll(c); string(heard) != "-full\n" || err != nil {
			t.Errorf("it hears %q, %v", heard, err)
		}
		await.Until(t, "it is closed", func() bool { return d.leaving() == 0 })
	}
}

func TestWhoIsIdleForLongestMakesRoom(t *testing.T) {
	d := openDoor(t, 20)
	var conns []net.Conn
	for range 17 {
		c := d.dial()
		if !d.talks(c) {
			t.Fatal("refused")
		}
		conns = append(conns, c)
		d.clock.pass(time.Second)
	}
	d.clock.pass(quietLeast)
	for _, c := range conns[2:] { // all except two keep talking
		if !d.talks(c) {
			t.Fatal("cut although there is room")
		}
	}
	held := []net.Conn{d.dial(), d.dial(), d.dial()}
	for _, c := range held {
		if !d.talks(c) {
			t.Error("a newcomer was refused although two are idle")
		}
	}
	await.Until(t, "one of the idle has gone for each beyond nine tenths", func() bool { return d.seen.is(18, 0, 2) })
	if d.talks(conns[0]) || d.talks(conns[1]) {
		t.Error("who is idle for longest was not cut")
	}
	for i, c := range conns[2:] {
		if !d.talks(c) {
			t.Errorf("connection %d, which talks, was cut", i+2)
		}
	}
}

// Reads are noted only while a port is crowded: no connection counts as idle from before that time.
func TestAPortThatFillsAtOnceCutsNobodyForWhatWasBefore(t *testing.T) {
	d := openDoor(t, 20)
	client := d.dial()
	if !d.talks(client) {
		t.Fatal("refused")
	}
	d.clock.pass(time.Hour)
	if !d.talks(client) { // this read is not noted
		t.Fatal("cut although there is room")
	}
	for range 19 {
		if !d.talks(d.dial()) {
			t.Fatal("refused")
		}
	}
	if !d.seen.is(20, 0, 0) || !d.talks(client) {
		t.Errorf("a client that spoke just now was cut: %+v", d.seen)
	}
}

func TestAFloodCutsNobodyWhoSpokeJustNow(t *testing.T) {
	d := openDoor(t, 40)
	client := d.dial()
	if !d.talks(client) {
		t.Fatal("refused")
	}
	for range 100 { // all at once
		d.dial()
	}
	await.Until(t, "it is full", func() bool { return d.seen.is(40, 61, 0) })
	if !d.talks(client) {
		t.Fatal("the flood has cut a client")
	}
	d.clock.pass(quietLeast)
	if !d.talks(client) {
		t.Fatal("cut")
	}
	if !d.talks(d.dial()) { // silent connections no longer block others
		t.Error("a newcomer is refused for the sake of silent ones")
	}
	if !d.talks(client) {
		t.Error("a client that talks was cut, and not the silent ones")
	}
}

// failing is a listener with an Accept that fails a number of times.
type failing struct {
	net.Listener
	mu   sync.Mutex
	left int // how often it fails from now on
}

func (f *failing) leftNow() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

func (f *failing) Accept() (net.Conn, error) {
	f.mu.Lock()
	f.left--
	fails := f.left >= 0
	f.mu.Unlock()
	if fails {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

func TestNoDescriptorsLeftEndsNoListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{refused: map[string]int{}}
	limit := New(Config{Port: "test", Most: 4, Logger: slog.New(slog.DiscardHandler), Observer: s, Now: time.Now})
	listener := limit.Listen(&failing{Listener: inner, left: 3}, Refusal{})
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	if s.refused["accept"] != 3 || s.open != 0 {
		t.Errorf("%+v", s)
	}
	poor := &failing{Listener: inner, left: 1 << 30}
	again := limit.Listen(poor, Refusal{})
	ended := make(chan error, 1)
	go func() { _, err := again.Accept(); ended <- err }()
	await.Until(t, "the listener tries again and again", func() bool {
		if len(ended) > 0 {
			t.Fatalf("a listener ended for want of descriptors: %v", <-ended)
		}
		return poor.leftNow() <= 1<<30-4
	})
	again.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener that was closed meanwhile: %v", err)
	}
	listener.Close()
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}
