//go:build proxies

package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// from is a client at an address of its own, which is what the policies count by.
func (w *world) from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	transport := &http.Transport{MaxIdleConnsPerHost: crowd,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, to)
		}}
	w.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; a POST has a body. It may be called concurrently.
func (w *world) ask(c *http.Client, method, path string, header http.Header) answer {
	body := ""
	if method == "POST" {
		body = "name=me"
	}
	return w.send(c, method, path, header, body)
}

// send is ask with a body.
func (w *world) send(c *http.Client, method, path string, header http.Header, body string) answer {
	request, err := http.NewRequest(method, "http://"+w.address+path, strings.NewReader(body))
	if err != nil {
		w.Error(err)
		return answer{status: http.StatusTooManyRequests}
	}
	for name, values := range header {
		if request.Header[name] = values; name == "Transfer-Encoding" {
			request.ContentLength, request.TransferEncoding = -1, values
		}
	}
	response, err := c.Do(request)
	if err != nil {
		w.Errorf("%s %s: %v", method, path, err)
		return answer{status: http.StatusTooManyRequests} // ends the loop of a crowd
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Errorf("%s %s: %v", method, path, err)
	}
	w.saw(response.StatusCode)
	return answer{response.StatusCode, response.Header, string(text)}
}

// saw remembers that a request was not decided.
func (w *world) saw(status int) {
	if status == http.StatusServiceUnavailable || status == http.StatusBadGateway ||
		status == http.StatusGatewayTimeout {
		w.undecided.Store(true)
	}
}

// spell sends a POST with a path that http.Client would make tidy.
func (w *world) spell(address, path string) (status int) {
	w.Helper()
	return w.raw(address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		path, w.address))
}

// raw sends a request as it stands. The status is 0 if the proxy closes the connection instead.
func (w *world) raw(address, request string) (status int) {
	w.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", w.address)
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.Fatal(err)
	}
	_, _ = io.WriteString(conn, request) // the proxy may have answered before the end
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	response.Body.Close()
	w.saw(response.StatusCode)
	return response.StatusCode
}

// used returns an error if an address has used another part of the one limit of a policy, as a node that lives knows
// it.
func (w *world) used(policy, address string, want uint64) error {
	w.Helper()
	if used := w.count(policy, address); used != want {
		return fmt.Errorf("%s has used %d of %s, want %d", address, used, policy, want)
	}
	return nil
}

// usedAtLeast returns an error if an address has used less.
func (w *world) usedAtLeast(policy, address string, want uint64) error {
	w.Helper()
	if used := w.count(policy, address); used < want {
		return fmt.Errorf("%s has used %d of %s, want at least %d", address, used, policy, want)
	}
	return nil
}

func (w *world) count(policy, address string) uint64 {
	w.Helper()
	var live client
	for i := range w.nodes.Len() {
		if w.nodes.Running(i) {
			live = client{w.T, w.nodes.Addr(i)}
		}
	}
	limits, _ := live.get(policy, "ip:"+address)
	return limits[0].Used
}
