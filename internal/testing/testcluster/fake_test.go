package testcluster

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary act as stint: the test cluster starts this binary again, with serve as its first
// argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(playStint(os.Args[2:]))
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// fake echoes the bytes that it receives on its peer and gossip ports, and talks to other nodes on request over HTTP:
//
//	/talk?network=peer|gossip|udp&to=HOST:PORT&wait=D   sends one byte and waits so long for the echo: "echo", "silence", or
//	                                                    "broken". A connection is kept, and used by the next /talk.
//	/heard                                              how many bytes came in
type fake struct {
	name  string
	udp   *net.UDPConn
	heard atomic.Int64
	mu    sync.Mutex
	conns map[string]net.Conn
}

func playStint(args []string) int {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	text := map[string]*string{}
	for _, name := range []string{"node-id", "data-dir", "api-addr", "peer-addr", "gossip-addr", "advertise", "join",
		"cluster-key", "bootstrap-expect", "policies", "shards", "replicas"} {
		text[name] = flags.String(name, "", "")
	}
	neverReady := flags.Bool("never-ready", false, "")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	f := &fake{name: *text["node-id"], conns: map[string]net.Conn{}}
	if err := os.MkdirAll(*text["data-dir"], 0o700); err != nil {
		return 1
	}
	if err := os.WriteFile(filepath.Join(*text["data-dir"], "000001.log"), make([]byte, 100), 0o600); err != nil {
		return 1
	}
	fmt.Println("playing", f.name, "clock", os.Getenv("STINT_CHAOS_CLOCK"))
	if err := f.listen(*text["peer-addr"], *text["gossip-addr"]); err != nil {
		fmt.Println(err)
		return 1
	}
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if *neverReady {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/talk", f.talk)
	http.HandleFunc("/heard", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, f.heard.Load()) })
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	go func() { fmt.Println(http.ListenAndServe(*text["api-addr"], nil)) }()
	<-stop
	return 0
}

func (f *fake) listen(peer, gossip string) error {
	for _, address := range []string{peer, gossip} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go f.echo(conn)
			}
		}()
	}
	address, err := net.ResolveUDPAddr("udp", gossip)
	if err != nil {
		return err
	}
	f.udp, err = net.ListenUDP("udp", address)
	if err == nil {
		go f.echoDatagrams()
	}
	return err
}

func (f *fake) echo(conn net.Conn) {
	b := make([]byte, 1)
	for {
		if _, err := conn.Read(b); err != nil {
			return
		}
		f.heard.Add(1)
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
}

// echoes counts echoed datagrams: a question is "?", its echo "!".
var echoes = make(chan struct{}, 100)

func (f *fake) echoDatagrams() {
	b := make([]byte, 10)
	for {
		_, from, err := f.udp.ReadFromUDP(b)
		if err != nil {
			return
		}
		if b[0] == '!' {
			echoes <- struct{}{}
			continue
		}
		f.heard.Add(1)
		f.udp.WriteToUDP([]byte("!"), from)
	}
}

func (f *fake) talk(w http.ResponseWriter, r *http.Request) {
	network, to := r.FormValue("network"), r.FormValue("to")
	wait, err := time.ParseDuration(r.FormValue("wait"))
	if err != nil {
		fmt.Fprint(w, err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if network == "udp" {
		address, _ := net.ResolveUDPAddr("udp", to)
		f.udp.WriteToUDP([]byte("?"), address)
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		select {
		case <-echoes:
			fmt.Fprint(w, "echo")
		case <-ctx.Done():
			fmt.Fprint(w, "silence")
		}
		return
	}
	conn, err := f.conn(network, to)
	if err == nil {
		conn.Write([]byte("x"))
		conn.SetReadDeadline(time.Now().Add(wait))
		_, err = conn.Read(make([]byte, 1))
	}
	switch {
	case err == nil:
		fmt.Fprint(w, "echo")
	case os.IsTimeout(err):
		fmt.Fprint(w, "silence")
	default:
		delete(f.conns, network+to)
		fmt.Fprint(w, "broken")
	}
}

func (f *fake) conn(network, to string) (net.Conn, error) {
	if conn, ok := f.conns[network+to]; ok {
		return conn, nil
	}
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	f.conns[network+to] = conn
	return conn, nil
}
