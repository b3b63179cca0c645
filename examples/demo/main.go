package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/stinthttp"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

//go:embed picture.txt
var picture string

const (
	quota    = 100
	requests = 150
	lives    = 35 // characters before the node is killed, at the end of their line
	policies = `policies:
  visits:
    headers: [x-ratelimit]
    limits:
      - {name: hour, quota: 100, fixed_window: {period: 1h, anchor: first_hit}}
`
)

func main() {
	binary := flag.String("stint", "./stint", "the program `FILE` of the nodes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "stint-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(out, "Three nodes on loopback, a proxy in front. 100 visits an hour, 150 come.")
	starting, ready := context.WithTimeout(ctx, time.Minute)
	defer ready()
	// One shard: then one node counts the visitor, and the demo knows which node to kill.
	nodes, err := testcluster.Start(starting, testcluster.Options{Binary: binary, Nodes: 3, Dir: dir,
		Policies: policies, Direct: true})
	if err != nil {
		return err
	}
	defer nodes.Close()
	limits, err := client.New(client.Config{Addresses: addressesOf(nodes)})
	if err != nil {
		return err
	}
	defer limits.Close()
	front, closeFront, err := proxy(limits)
	if err != nil {
		return err
	}
	defer closeFront()
	v := visitor{front: front, out: out, statuses: map[int]int{}}
	if err := v.draw(ctx, func() (string, error) { return killOwner(ctx, nodes) }); err != nil {
		return err
	}
	return v.judge()
}

func addressesOf(nodes *testcluster.Cluster) (all []string) {
	for _, address := range nodes.Addrs() {
		all = append(all, "http://"+address)
	}
	return all
}

// proxy starts a web server, and in front of it a proxy that lets only so many requests of each address through.
func proxy(limits *client.Client) (address string, closeBoth func(), err error) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello\n")
	}))
	to, err := url.Parse(web.URL)
	if err != nil {
		return "", nil, err
	}
	limit := stinthttp.Limit(limits, stinthttp.Entry("visits", stinthttp.ClientIP()), stinthttp.FailClosed,
		stinthttp.Within(30*time.Second))
	front := httptest.NewServer(limit(httputil.NewSingleHostReverseProxy(to)))
	return front.URL, func() { front.Close(); web.Close() }, nil
}

// killOwner ends the node that counts, as kill -9 does, and returns its name.
func killOwner(ctx context.Context, nodes *testcluster.Cluster) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+nodes.Addr(0)+"/stint.v1.ClusterService/Status", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var status struct {
		Shards []struct {
			ID    uint32 `json:"id"`
			Owner string `json:"owner"`
		} `json:"shards"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return "", fmt.Errorf("the status of the cluster: %w", err)
	}
	for _, shard := range status.Shards {
		for i := range nodes.Len() {
			if shard.ID == 0 && nodes.Name(i) == shard.Owner {
				return shard.Owner, nodes.Kill(i)
			}
		}
	}
	return "", errors.New("no node owns the shard")
}
