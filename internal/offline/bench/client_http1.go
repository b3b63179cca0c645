package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// client sends one caller's calls to the server.
type client interface {
	// check makes one call with one check of each key, and writes their fates in the order of the keys. An error is a
	// *callError and applies to all of them, unless it is partial.
	check(keys []uint32, fates []fate) error
	close()
}

// codec encodes a call and decodes its answer in one protocol over HTTP/1.1.
type codec interface {
	contentType() string
	// appendBody writes the request for the keys: a CheckRequest for one, a CheckBatchRequest for more.
	appendBody(dst []byte, keys []uint32) []byte
	// readFates reads the answer to len(fates) checks.
	readFates(body []byte, fates []fate) error
}

// http1 is one keep-alive HTTP/1.1 connection, driven by hand. A call is one write and usually one read, and allocates
// nothing of its own. net/http costs several times as much, on the processors that the server needs.
type http1 struct {
	targets []*url.URL
	at      int // index of the current target
	codec   codec
	timeout time.Duration
	secure  *tls.Config
	token   string // "": none

	conn          net.Conn // nil: not connected
	reader        *bufio.Reader
	request       []byte // header and body, reused
	message, body []byte
}

// newHTTP1 returns a client. The callers begin with different targets, in turn.
func newHTTP1(targets []*url.URL, caller int, c codec, p Plan) *http1 {
	return &http1{targets: targets, at: caller % len(targets), codec: c, timeout: p.Timeout, secure: p.TLS, token: p.Token}
}

func (h *http1) target() *url.URL { return h.targets[h.at] }

func (h *http1) check(keys []uint32, fates []fate) error {
	if err := h.connect(); err != nil {
		return broken(false, err)
	}
	status, err := h.roundTrip(keys)
	if err != nil {
		h.close()
		return broken(true, err)
	}
	if status != 200 {
		return readFailure(status, h.body)
	}
	return h.codec.readFates(h.body, fates)
}

// connect opens the connection if there is none. If a target refuses, nothing was sent, so it tries the next one.
func (h *http1) connect() (err error) {
	if h.conn != nil {
		return nil
	}
	for range h.targets {
		var conn net.Conn
		if conn, err = h.dial(); err == nil {
			h.conn, h.reader = conn, bufio.NewReaderSize(conn, 16<<10)
			return nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		h.at = (h.at + 1) % len(h.targets)
	}
	return err
}

func (h *http1) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: h.timeout}
	address := hostPort(h.target(), portOf(h.target()))
	if h.target().Scheme == "https" {
		return tls.DialWithDialer(dialer, "tcp", address, h.secure)
	}
	return dialer.Dial("tcp", address)
}

// portOf is the port of a URL that names none.
func portOf(u *url.URL) string {
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

func hostPort(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (h *http1) close() {
	if h.conn != nil {
		h.conn.Close()
		h.conn = nil
	}
}

// roundTrip sends one call and leaves the answer's body in h.body.
func (h *http1) roundTrip(keys []uint32) (status int, err error) {
	h.message = h.codec.appendBody(h.message[:0], keys)
	h.request = h.appendHead(h.request[:0], len(keys) > 1, len(h.message))
	h.request = append(h.request, h.message...)
	if err := h.conn.SetDeadline(time.Now().Add(h.timeout)); err != nil {
		return 0, err
	}
	if _, err := h.conn.Write(h.request); err != nil {
		return 0, err
	}
	return h.readResponse()
}

func (h *http1) appendHead(dst []byte, batch bool, length int) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, h.target().Path...)
	dst = append(dst, "/stint.v1.LimitService/Check"...)
	if batch {
		dst = append(dst, "Batch"...)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, h.target().Host...)
	if h.token != "" {
		dst = append(append(dst, "\r\nAuthorization: Bearer "...), h.token...)
	}
	dst = append(dst, "\r\nConnect-Protocol-Version: 1\r\nContent-Type: "...)
	dst = append(dst, h.codec.contentType()...)
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(length), 10)
	return append(dst, "\r\n\r\n"...)
}

// framing is what a response's header says about its body.
type framing struct {
	length  int // -1: not given
	chunked bool
	closing bool
}

func (h *http1) readResponse() (status int, err error) {
	status, err = h.readStatus()
	if err != nil {
		return 0, err
	}
	f, err := h.readHeader()
	if err != nil {
		return 0, err
	}
	if err := h.readBody(f); err != nil {
		return 0, err
	}
	if f.closing {
		h.close()
	}
	return status, nil
}

func (h *http1) readStatus() (int, error) {
	line, err := h.reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, fmt.Errorf("%s does not speak HTTP/1.1: it answered %.40q", h.target().Host, line)
	}
	return strconv.Atoi(string(line[9:12]))
}

func (h *http1) readHeader() (framing, error) {
	f := framing{length: -1}
	for {
		line, err := h.reader.ReadSlice('\n')
		if err != nil {
			return f, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return f, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if err := f.read(name, bytes.TrimSpace(value)); err != nil {
			return f, err
		}
	}
}

func (f *framing) read(name, value []byte) (err error) {
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		f.length, err = strconv.Atoi(string(value))
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		f.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("Connection")):
		f.closing = bytes.EqualFold(value, []byte("close"))
	}
	return err
}

func (h *http1) readBody(f framing) (err error) {
	switch {
	case f.chunked:
		h.body, err = io.ReadAll(httputil.NewChunkedReader(h.reader))
		if err == nil {
			_, err = h.reader.ReadSlice('\n') // the empty line after the last chunk
		}
	case f.length >= 0:
		if cap(h.body) < f.length {
			h.body = make([]byte, f.length)
		}
		h.body = h.body[:f.length]
		_, err = io.ReadFull(h.reader, h.body)
	default:
		err = errors.New("the answer does not say how long it is")
	}
	return err
}

// readFailure turns a Connect error, which is JSON with every codec, into a callError.
func readFailure(status int, body []byte) *callError {
	var failure struct{ Code, Message string }
	if json.Unmarshal(body, &failure) != nil || failure.Code == "" {
		return refused("http_"+strconv.Itoa(status), fmt.Sprintf("%.200s", body), status >= 500)
	}
	return refused(failure.Code, failure.Message, false)
}
