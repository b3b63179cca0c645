package bench

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// respClient is one RESP2 connection, driven by hand: a call is one write and usually one read, and allocates nothing. A
// batch is a pipeline.
type respClient struct {
	targets []string
	at      int // index of the current target
	dialect dialect
	timeout time.Duration
	secure  *tls.Config // nil: plaintext
	token   string      // "": none

	conn    net.Conn  // nil: not connected
	renewed time.Time // when the connection's deadline was last set
	request []byte    // reused
	buffer  []byte    // what was read; not yet parsed from unread on
	unread  int
}

// dialect is the work of a plan in RESP.
type dialect struct {
	command template // of one check
	behind  []byte   // sent once at the end of a pipeline: a WAIT, or nothing
	wait    int64    // replicas that must have acknowledged
	no      int64    // first number of the reply to a denied check; below 0: none is denied
	strange bool     // the server is a Redis: a command that it answers with an error was not executed
}

func newRESP(p Plan, caller int) *respClient {
	return &respClient{targets: p.Redis, at: caller % len(p.Redis), dialect: dialectOf(p), timeout: p.Timeout,
		secure: redisTLS(p), token: redisToken(p), buffer: make([]byte, 0, 16<<10)}
}

// redisTLS is the TLS of the Redis ports of a plan; nil: they have none.
func redisTLS(p Plan) *tls.Config {
	if p.isSecure() && p.TLS == nil {
		return &tls.Config{}
	}
	if p.isSecure() {
		return p.TLS
	}
	return nil
}

// redisToken is the token for the Redis ports of a plan: a Redis gets none.
func redisToken(p Plan) string {
	if p.IsRedis {
		return ""
	}
	return p.Token
}

// The token bucket of work bucket: so large that no machine is denied, so that every check writes.
const (
	bucketQuota      = 1_000_000
	bucketRefillEach = time.Second // of the whole quota
	windowQuota      = 1_000_000_000_000
	windowPeriod     = 24 * time.Hour
)

// dialectOf encodes the work of a plan.
func dialectOf(p Plan) dialect {
	key := p.keyName(0)
	words, at := []string{"INCR", key}, 1
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	switch {
	case p.Work == Incr:
	case p.IsRedis && p.Work == Window:
		words, at = []string{"EVALSHA", windowScript.sha(), "1", key, strconv.Itoa(windowQuota), millis(windowPeriod)}, 3
	case p.IsRedis && p.Work == Bucket:
		words, at = []string{"EVALSHA", bucketScript.sha(), "1", key, strconv.Itoa(bucketQuota), millis(bucketRefillEach)}, 3
	case p.Work == Bucket:
		words = []string{"CL.THROTTLE", key, strconv.Itoa(bucketQuota - 1), strconv.Itoa(bucketQuota),
			strconv.Itoa(int(bucketRefillEach.Seconds()))}
	default:
		words, at = []string{"STINT.CHECK", p.Policy, key}, 2
		if p.Cost != 1 {
			words = append(words, strconv.FormatUint(p.Cost, 10))
		}
	}
	head := appendCommand(nil, words[:at]...)
	hole := len(head) + len("$"+strconv.Itoa(len(key))+"\r\n") + p.digitsAt()
	// The count of words is that of the whole command, which may be one digit longer than that of its head.
	hole += len(strconv.Itoa(len(words))) - len(strconv.Itoa(at))
	d := dialect{command: template{appendCommand(nil, words...), []int{hole}}, no: 1, strange: p.IsRedis}
	switch {
	case p.Work == Incr:
		d.no = -1
	case p.asksPolicy(): // STINT.CHECK answers "allowed", and 1 if it is
		d.no = 0
	}
	if p.Wait > 0 {
		d.wait = int64(p.Wait)
		d.behind = appendCommand(nil, "WAIT", strconv.Itoa(p.Wait), "0")
	}
	return d
}

// appendCommand writes a command as an array of bulk strings.
func appendCommand(dst []byte, words ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(words))
	for _, word := range words {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(word), word)
	}
	return dst
}

// appendTo writes the pipeline that checks the keys, and returns the number of its replies.
func (d *dialect) appendTo(dst []byte, keys []uint32) ([]byte, int) {
	for _, key := range keys {
		dst = d.command.appendTo(dst, key)
	}
	if len(d.behind) == 0 {
		return dst, len(keys)
	}
	return append(dst, d.behind...), len(keys) + 1
}

// fateOf returns the fate that a reply to a check states.
func (d *dialect) fateOf(r reply) (fate, *callError) {
	switch {
	case r.kind == '-':
		return d.refusal(r.text)
	case r.number == d.no:
		return denied, nil
	}
	return allowed, nil
}

// refusal interprets an error reply. By UNKNOWN, stint says that a command may have been counted; an unfamiliar word may mean
// the same.
func (d *dialect) refusal(text []byte) (fate, *callError) {
	word, _, _ := strings.Cut(string(text), " ")
	f := unknown
	switch word {
	case "ERR", "NOSCRIPT", "WRONGTYPE", "OOM", "LOADING", "BUSY", "TRYAGAIN", "NOAUTH", "NOPERM", "CLUSTERDOWN":
		f = failed
	}
	if d.strange {
		f = failed
	}
	return f, &callError{code: strings.ToLower(word), message: string(text), fate: f, partial: true}
}

func (c *respClient) check(keys []uint32, fates []fate) error {
	if err := c.connect(); err != nil {
		return broken(false, err)
	}
	if err := c.roundTrip(keys, fates); err != nil {
		var e *callError
		if !errors.As(err, &e) { // the connection cannot be used again
			c.close()
			return broken(true, err)
		}
		return err
	}
	return nil
}

// roundTrip sends one pipeline and reads its replies.
func (c *respClient) roundTrip(keys []uint32, fates []fate) error {
	// A deadline for each call would cost more than the rest of the call, so one serves many: the timeout of a call is
	// between one and one and a half times the configured one.
	if now := time.Now(); now.Sub(c.renewed) > c.timeout/2 {
		if err := c.conn.SetDeadline(now.Add(c.timeout + c.timeout/2)); err != nil {
			return err
		}
		c.renewed = now
	}
	c.request, _ = c.dialect.appendTo(c.request[:0], keys)
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	var first *callError
	for i := range fates {
		r, err := c.next()
		if err != nil {
			return err
		}
		var refused *callError
		if fates[i], refused = c.dialect.fateOf(r); first == nil {
			first = refused
		}
	}
	if c.dialect.wait > 0 {
		r, err := c.next()
		if err != nil {
			return err
		}
		if r.kind != ':' || r.number < c.dialect.wait {
			return &callError{code: "wait", message: fmt.Sprintf("WAIT answered %d %s", r.number, r.text), fate: unknown}
		}
	}
	if first != nil {
		return first
	}
	return nil
}

// next reads one reply. It is valid until the next call.
func (c *respClient) next() (reply, error) {
	for {
		r, n, err := parseReply(c.buffer[c.unread:])
		if err != nil {
			return reply{}, err
		}
		if n > 0 {
			c.unread += n
			return r, nil
		}
		if err := c.fill(); err != nil {
			return reply{}, err
		}
	}
}

// fill reads more data behind the unread data.
func (c *respClient) fill() error {
	c.buffer = c.buffer[:copy(c.buffer, c.buffer[c.unread:])]
	c.unread = 0
	if len(c.buffer) == cap(c.buffer) {
		c.buffer = append(c.buffer, 0)[:len(c.buffer)]
	}
	n, err := c.conn.Read(c.buffer[len(c.buffer):cap(c.buffer)])
	c.buffer = c.buffer[:len(c.buffer)+n]
	if n > 0 {
		return nil
	}
	return err
}

// connect opens the connection if there is none. If a target refuses, nothing was sent, so it tries the next one.
func (c *respClient) connect() (err error) {
	if c.conn != nil {
		return nil
	}
	c.buffer, c.unread, c.renewed = c.buffer[:0], 0, time.Time{}
	for range c.targets {
		if c.conn, err = c.dial(); err == nil {
			return nil
		}
		c.conn = nil
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		c.at = (c.at + 1) % len(c.targets)
	}
	return err
}

// dial connects, and proves who is there if there is a token.
func (c *respClient) dial() (conn net.Conn, err error) {
	dialer := &net.Dialer{Timeout: c.timeout}
	if c.secure != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", c.targets[c.at], c.secure)
	} else {
		conn, err = dialer.Dial("tcp", c.targets[c.at])
	}
	if err != nil || c.token == "" {
		return conn, err
	}
	if err := authenticate(conn, c.token, c.timeout); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// authenticate sends a token on a new connection and reads the reply, which is one line.
func authenticate(conn net.Conn, token string, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := conn.Write(appendCommand(nil, "AUTH", token)); err != nil {
		return err
	}
	const ok, lineMax = "+OK\r\n", 1 << 10
	var line []byte
	for one := make([]byte, 1); !bytes.HasSuffix(line, []byte("\r\n")) && len(line) < lineMax; line = append(line, one[0]) {
		if _, err := conn.Read(one); err != nil {
			return err
		}
	}
	if string(line) != ok {
		return errors.New("AUTH: " + strings.TrimSpace(string(line)))
	}
	return nil
}

func (c *respClient) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// reply is one RESP2 value, as far as the generator needs it.
type reply struct {
	kind   byte   // + - : $ or *
	number int64  // of an integer; of an array, its first integer
	text   []byte // of + - and $, nil: null; of an array, its last item's
}

// errNotRESP says that the server does not speak RESP2.
var errNotRESP = errors.New("the answer is not RESP2: is this a Redis port?")

// parseReply parses the first reply of the text. n is its length, or 0 if it is incomplete.
func parseReply(text []byte) (r reply, n int, err error) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return r, 0, nil
	}
	if end < 2 || text[end-1] != '\r' {
		return r, 0, errNotRESP
	}
	r.kind = text[0]
	line := text[1 : end-1]
	n = end + 1
	switch r.kind {
	case '+', '-':
		r.text = line
		return r, n, nil
	case ':', '$', '*':
	default:
		return r, 0, errNotRESP
	}
	number, ok := parseInt(line)
	if !ok {
		return r, 0, errNotRESP
	}
	switch r.kind {
	case ':':
		r.number = number
	case '$':
		return parseBulk(r, text, n, number)
	case '*':
		return parseArray(r, text, n, number)
	}
	return r, n, nil
}

func parseBulk(r reply, text []byte, n int, length int64) (reply, int, error) {
	switch {
	case length < 0:
		return r, n, nil
	case length > 64<<20:
		return r, 0, errNotRESP
	case len(text) < n+int(length)+2:
		return r, 0, nil
	}
	r.text = text[n : n+int(length)]
	return r, n + int(length) + 2, nil
}

func parseArray(r reply, text []byte, n int, items int64) (reply, int, error) {
	found := false
	for range max(items, 0) {
		item, length, err := parseReply(text[n:])
		if err != nil || length == 0 {
			return r, 0, err
		}
		if item.kind == ':' && !found {
			r.number, found = item.number, true
		}
		n += length
		r.text = item.text
	}
	return r, n, nil
}

func parseInt(text []byte) (value int64, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	for _, digit := range text {
		if digit < '0' || digit > '9' || value > (1<<63-1)/10-1 {
			return 0, false
		}
		value = value*10 + int64(digit-'0')
	}
	if negative {
		value = -value
	}
	return value, len(text) > 0
}
