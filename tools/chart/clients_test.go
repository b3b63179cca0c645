//go:build docker

package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// host is the name of the Service for clients.
const host = "stint" + domain

// clients ask the Service without a pause, and never twice for the same thing. A connection goes to a pod that is
// ready when it is made.
type clients struct {
	c       *cluster
	secure  *tls.Config
	token   string
	group   sync.WaitGroup
	stop    context.CancelFunc
	allowed atomic.Uint64

	mu       sync.Mutex
	answered int
	failures []string
}

// newClients starts clients of two kinds: those that keep their connection, and those that make one for each request.
func newClients(c *cluster) *clients {
	ctx, stop := context.WithCancel(context.Background())
	k := &clients{c: c, stop: stop, token: string(c.given["admin"]["admin.token"]),
		secure: &tls.Config{RootCAs: x509.NewCertPool()}}
	k.secure.RootCAs.AppendCertsFromPEM(c.read("ca.crt"))
	c.t.Cleanup(k.end)
	for worker := range 4 {
		client := k.client(worker%2 == 0)
		k.group.Go(func() {
			for ctx.Err() == nil {
				k.count(client)
				time.Sleep(10 * time.Millisecond) // the machine has pods to run
			}
		})
	}
	return k
}

// client trusts the authority alone, and connects as kube-proxy does.
func (k *clients) client(keep bool) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: k.secure.Clone(),
		DisableKeepAlives: !keep, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			pod := k.c.ready()
			if pod == "" {
				return nil, fmt.Errorf("no pod is ready")
			}
			_, port, _ := net.SplitHostPort(address)
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(pod, port))
		}}}
}

// count makes one request, which must be answered.
func (k *clients) count(client *http.Client) {
	var reply struct{ Decision struct{ Allowed bool } }
	err := k.call(client, "Check", "stock", &reply)
	if err == nil && !reply.Decision.Allowed {
		err = fmt.Errorf("denied")
	}
	if err == nil {
		k.allowed.Add(1)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered++
	if err != nil {
		k.failures = append(k.failures, time.Now().UTC().Format("15:04:05.000 ")+err.Error())
	}
}

// call asks for key "k" of a policy.
func (k *clients) call(client *http.Client, method, policy string, reply any) error {
	body := fmt.Sprintf(`{"entries":[{"policy":%q,"key":"k"}]}`, policy)
	r, err := http.NewRequest(http.MethodPost, "https://"+host+":7400/stint.v1.LimitService/"+method,
		strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+k.token)
	var asked net.Addr // the pod's
	trace := &httptrace.ClientTrace{GotConn: func(to httptrace.GotConnInfo) { asked = to.Conn.RemoteAddr() }}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%v: %w", asked, err)
	}
	defer response.Body.Close()
	var text json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&text); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return json.Unmarshal(text, reply)
}

// sound says after a step that no request has failed since the one before.
func (k *clients) sound(step string) {
	k.c.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c.t.Logf("%s: %d requests, %d failed", step, k.answered, len(k.failures))
	if len(k.failures) > 0 {
		k.c.t.Errorf("%s: failed:\n%s%s", step, strings.Join(k.failures[:min(len(k.failures), 10)], "\n"), k.c.story())
	}
	k.answered, k.failures = 0, nil
}

// end stops the clients and waits for them.
func (k *clients) end() {
	k.stop()
	k.group.Wait()
}

// used is what the cluster has counted.
func (k *clients) used(t *testing.T) uint64 {
	t.Helper()
	var reply struct{ Limits []struct{ Used string } }
	if err := k.call(k.client(false), "Get", "stock", &reply); err != nil || len(reply.Limits) != 1 {
		t.Fatalf("%+v, %v", reply, err)
	}
	used, err := strconv.ParseUint(reply.Limits[0].Used, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return used
}
