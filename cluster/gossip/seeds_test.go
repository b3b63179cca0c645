package gossip

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// zoneFile is a resolver with names that can change.
type zoneFile struct {
	mu    sync.Mutex
	names map[string][]string
	asked int
}

func (z *zoneFile) LookupNetIP(_ context.Context, _, host string) (found []netip.Addr, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	for _, text := range z.names[host] {
		found = append(found, netip.MustParseAddr(text))
	}
	if found == nil {
		return nil, errors.New("no such host")
	}
	return found, nil
}

func (z *zoneFile) set(host string, addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.names[host] = addresses
}

func (z *zoneFile) lookups() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

func TestANameWithSeveralAddressesIsSeveralSeeds(t *testing.T) {
	zone := &zoneFile{names: map[string][]string{
		"stint":  {"fd00::1", "10.0.0.2", "::ffff:10.0.0.1"},
		"node-2": {"10.0.0.2"},
	}}
	seeds := []string{"stint:7402", "gone:7402", "node-2:7402", "10.0.0.2:7403", "[::1]:7402"}
	found, err := resolveSeeds(t.Context(), zone, seeds)
	var got []string
	for _, address := range found {
		got = append(got, address.String())
	}
	want := []string{"10.0.0.2:7402", "10.0.0.1:7402", "[fd00::1]:7402", "10.0.0.2:7403", "[::1]:7402"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("the name without an address is not named: %v", err)
	}
}

func TestASeedThatIsNoAddressIsNamed(t *testing.T) {
	for _, seed := range []string{"", "node-2", "node-2:", ":7402", "node-2:0", "node-2:65536", "node-2:x",
		"::1:7402"} {
		err := checkSeeds([]string{"10.0.0.1:7402", seed})
		if err == nil || !strings.Contains(err.Error(), "join[1]") {
			t.Errorf("%q: %v", seed, err)
		}
	}
}
