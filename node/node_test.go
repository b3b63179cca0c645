package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // the tests outside bubbles mostly wait, for timeouts and disks
	goleak.VerifyTestMain(m,
		// A probe that was under way when gossip stopped ends by itself, seconds later.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"),
		// What bubble.Run lets raft leave behind.
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2"))
}

const lifetimePolicy = `policies:
  stock:
    limits:
      - {name: total, quota: 100, lifetime: {}}
  plenty:
    limits:
      - {name: total, quota: 1000000000, lifetime: {}}
  flooded:
    deny_cache: 10s
    limits:
      - {name: total, quota: 1, lifetime: {}}
  asked:
    limits:
      - {name: total, quota: 1, lifetime: {}}
`

// testConfig has two shards: requests with several keys are operations then, and more would take longer.
func testConfig(t testing.TB) Config {
	t.Helper()
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(policies, []byte(lifetimePolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{DataDir: filepath.Join(t.TempDir(), "data"), ClientPorts: ClientPorts{APIAddr: "127.0.0.1:0"},
		PeerAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0", PoliciesFile: policies, World: worldOf(t), Shards: 2}
}

func start(t testing.TB, config Config) *Node {
	t.Helper()
	ctx, cancel := patient(t.Context(), config.World, time.Minute)
	defer cancel()
	n, err := Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

func stop(t testing.TB, n *Node) {
	t.Helper()
	stopWithin(t, n, 20*time.Second)
}

func stopWithin(t testing.TB, n *Node, within time.Duration) {
	t.Helper()
	ctx, cancel := patient(context.Background(), n.config.World, within)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// check asks once; code is "" when there is a decision.
func check(t *testing.T, n *Node, key string) (allowed bool, code string) {
	t.Helper()
	body := fmt.Sprintf(`{"entries":[{"policy":"stock","key":%q}]}`, key)
	client := clientOf(n)
	response, err := client.Post("http://"+n.APIAddr()+"/stint.v1.LimitService/Check", "application/json",
		bytes.NewReader([]byte(body)))
	if err != nil {
		return false, err.Error()
	}
	defer response.Body.Close()
	var reply struct {
		Decision struct{ Allowed bool }
		Code     string
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil {
		t.Error(err)
	}
	return reply.Decision.Allowed, reply.Code
}

func TestConcurrentClientsAreAdmittedExactlyAsOftenAsTheLimitSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		defer stop(t, n)
		var admitted atomic.Int64
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				for range 20 {
					if allowed, code := check(t, n, "one key"); allowed {
						admitted.Add(1)
					} else if code != "" {
						t.Errorf("code %q", code)
					}
				}
			})
		}
		group.Wait()
		if admitted.Load() != 100 {
			t.Errorf("limit 100, admitted %d of 320", admitted.Load())
		}
	})
}

func TestWhatWasSpentIsSpentAfterARestartWithOtherFlags(t *testing.T) {
	config := testConfig(t)
	config.Shards = 2
	n := start(t, config)
	for i := range 100 {
		if allowed, code := check(t, n, "key"); !allowed {
			t.Fatalf("request %d: denied %q", i, code)
		}
	}
	stop(t, n)

	config.Shards = 7 // fixed when the data directory was created
	n = start(t, config)
	defer stop(t, n)
	if allowed, code := check(t, n, "key"); allowed || code != "" {
		t.Errorf("the 101st request: allowed %v, code %q", allowed, code)
	}
	if got := n.view.shards(); got != 2 {
		t.Errorf("%d shards, want the 2 of the data directory", got)
	}
}

func TestADataDirectoryIsOneNodesOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.NodeID = "a"
		n := start(t, config)

		if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second process on the same directory: %v", err)
		}
		stop(t, n)
		config.NodeID = "b"
		if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), `belongs to node "a"`) {
			t.Errorf("another node on the same directory: %v", err)
		}
	})
}

func TestAStoppedNodeFinishesWhatItWasAskedAndRefusesTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		var decided, refused atomic.Int64
		var group sync.WaitGroup
		asked := make(chan struct{}, 1000)
		for worker := range 8 {
			group.Go(func() {
				for {
					_, code := check(t, n, fmt.Sprint("worker ", worker))
					switch {
					case code == "":
						decided.Add(1)
					case code == "unavailable" || strings.Contains(code, "refused") ||
						strings.Contains(code, "reset") || strings.Contains(code, "EOF"):
						refused.Add(1)
						return
					default:
						t.Errorf("code %q", code)
						return
					}
					select {
					case asked <- struct{}{}:
					default:
					}
				}
			})
		}
		<-asked // there is load
		stop(t, n)
		group.Wait()
		if decided.Load() == 0 || refused.Load() != 8 {
			t.Errorf("decided %d, refused %d of 8 workers", decided.Load(), refused.Load())
		}
	})
}

func TestBadConfigurationStopsBeforeTheDataDirectoryIsTouched(t *testing.T) {
	config := testConfig(t)
	if err := os.WriteFile(config.PoliciesFile, []byte("policies:\n  p:\n    limit: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), config)
	if err == nil || !strings.Contains(err.Error(), config.PoliciesFile+":3") {
		t.Errorf("got %v, want the policies file and its line", err)
	}
	if _, err := os.Stat(config.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// Policies that Apply refuses found no cluster either. A node with data starts: an older release may have accepted
// them.
func TestPoliciesThatApplyRefusesFoundNoCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		good, err := os.ReadFile(config.PoliciesFile)
		if err != nil {
			t.Fatal(err)
		}
		bad := []byte("policies:\n  p: {headers: [x-quota], limits: [{name: hourly, quota: 3, lifetime: {}}]}\n")
		put := func(text []byte) {
			t.Helper()
			if err := os.WriteFile(config.PoliciesFile, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put(bad)
		_, err = Start(t.Context(), config)
		if !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), ErrConfig.Error()+": policies: "+
			config.PoliciesFile+": policies.p.headers: x-quota shows the limit named daily") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(config.DataDir); !os.IsNotExist(err) {
			t.Errorf("the data directory was made: %v", err)
		}
		put(good)
		stop(t, start(t, config))
		put(bad)
		stop(t, start(t, config))
	})
}

// A supervisor restarts a process that ended with 1 forever; lost or corrupt data does not come back that way.
func TestADirectoryThatLostOrChangedItsBytesIsNotADiskToTrust(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, file string){
		"terms and votes are gone": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"terms and votes are not what was written": func(t *testing.T, file string) {
			if err := os.WriteFile(file, bytes.Repeat([]byte{0xa5}, 64<<10), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				config := onRealDisk(t)
				stop(t, start(t, config))
				harm(t, filepath.Join(config.DataDir, "stable.db"))
				if _, err := Start(t.Context(), config); !errors.Is(err, ErrDisk) {
					t.Errorf("got %v, want an error of the disk", err)
				}
			})
		})
	}
}

func TestConfigurationErrorsAreToldFromFailures(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"too many shards":  func(c *Config) { c.Shards = 300 },
		"a node id":        func(c *Config) { c.NodeID = "a/b" },
		"no address":       func(c *Config) { c.APIAddr = "nonsense" },
		"no data dir":      func(c *Config) { c.DataDir = "" },
		"a port too large": func(c *Config) { c.APIAddr = "127.0.0.1:99999" },
		"wrong policies":   func(c *Config) { os.WriteFile(c.PoliciesFile, []byte("policies: 7"), 0o600) },
	} {
		config := testConfig(t)
		change(&config)
		if _, err := Start(t.Context(), config); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: got %v, want an error of the configuration", name, err)
		}
	}
	config := testConfig(t)
	n := start(t, config)
	defer stop(t, n)
	config.DataDir, config.APIAddr = t.TempDir(), n.APIAddr()
	if _, err := Start(t.Context(), config); err == nil || errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), "another address with --api-addr") {
		t.Errorf("an address that is taken: %v, want a failure that names the flag", err)
	}
}

var addrs atomic.Uint32

// claimed keeps other runs of these tests away from subnet. A listener that nothing refers to is closed by the garbage
// collector.
var claimed net.Listener

// subnet returns the second number of 127.N.0.0/16, of which all addresses are this process's.
var subnet = sync.OnceValue(func() int {
	for i := range 100 {
		n := 100 + (os.Getpid()+i)%100
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.255.254:7402", n)); err == nil {
			claimed = listener
			return n
		}
	}
	panic("a hundred runs of these tests are under way")
})

// freeAddr returns an address on a loopback IP that no other test was given: a port that is free now may soon be taken.
func freeAddr(t testing.TB) string {
	t.Helper()
	n := addrs.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:7402", subnet(), n/250, n%250+1)
}

func TestANodeWithoutAClusterAnswersWhoAsksItAboutOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.BootstrapExpect, config.InsecurePeers = 3, true
		n, err := Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, n)
		a := n.admin
		if _, err := a.Drain(t.Context(), "", true, false); err == nil {
			t.Error("it drained")
		}
		if err := a.RemoveNode(t.Context(), "n1"); err == nil {
			t.Error("it removed a node")
		}
		if _, err := a.Status(t.Context()); err == nil {
			t.Error("it has a status")
		}
	})
}
