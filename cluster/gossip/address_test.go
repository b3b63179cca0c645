package gossip

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnAdvertisedNameIsAwaited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		appears time.Duration
		wrong   string
	}{{appears: 20 * time.Second}, {appears: time.Minute, wrong: `advertise: after 30s: no address for "pod-0.test"`}} {
		synctest.Test(t, func(t *testing.T) {
			zone, log := &zoneFile{names: map[string][]string{}}, &strings.Builder{}
			timer := time.AfterFunc(c.appears, func() { zone.set("pod-0.test", "10.0.0.7") })
			defer timer.Stop()
			config := Config{Addr: ":7402", Advertise: "pod-0.test", Resolver: zone,
				Logger: slog.New(slog.NewTextHandler(log, nil))}
			began := time.Now()
			found, err := config.address(context.Background())
			switch {
			case c.wrong != "":
				if err == nil || !strings.Contains(err.Error(), c.wrong) || time.Since(began) > 32*time.Second {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			case err != nil || found.announced != netip.MustParseAddr("10.0.0.7") || found.host != "pod-0.test":
				t.Errorf("%+v, %v", found, err)
			}
			if strings.Count(log.String(), "no address yet") != 1 {
				t.Errorf("it says %q", log)
			}
		})
	}
}

// A node that is told to stop in its first look-up says what failed.
func TestAnEndedFirstLookupSaysWhy(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	config := Config{Addr: ":7402", Advertise: "pod-0.test", Resolver: &zoneFile{},
		Logger: slog.New(slog.DiscardHandler)}
	if _, err := config.address(ctx); err == nil || !strings.Contains(err.Error(), `no address for "pod-0.test"`) {
		t.Errorf("it says %v", err)
	}
}

func TestTheAddressOfAMachine(t *testing.T) {
	t.Parallel()
	for addresses, want := range map[string]string{
		"127.0.0.1/8 fd00::7/64 10.0.0.7/24 10.0.0.8/24": "10.0.0.7",
		"127.0.0.1/8 ::1/128 fe80::1/64 fd00::7/64":      "fd00::7",
		"127.0.0.1/8 ::1/128 fe80::1/64":                 "",
	} {
		found, err := machineAddress(func() (list []net.Addr, _ error) {
			for _, text := range strings.Fields(addresses) {
				ip, network, err := net.ParseCIDR(text)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, &net.IPNet{IP: ip, Mask: network.Mask})
			}
			return list, nil
		})
		if want == "" && (err == nil || !strings.Contains(err.Error(), "--advertise")) ||
			want != "" && (err != nil || found.String() != want) {
			t.Errorf("%s: %v, %v, want %q", addresses, found, err, want)
		}
	}
}

// Where the announced address is of IPv6, gossip listens there.
func TestAWildcardListensWhereItIsAnnounced(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"fd00::7": "::", "10.0.0.7": "0.0.0.0"} {
		config := Config{Addr: ":7402", Advertise: host}
		if found, err := config.address(t.Context()); err != nil || found.bind.String() != want {
			t.Errorf("%s: it listens on %v, %v, want %s", host, found.bind, err, want)
		}
	}
}
