package clientaddr

import "testing"

func TestTheClientIsTheRightmostAddressThatNoTrustedProxyHas(t *testing.T) {
	proxies, err := ParseProxies([]string{"10.0.0.0/8", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		otherEnd  string
		forwarded []string
		want      string
	}{
		{"203.0.113.7:4711", nil, "ip:203.0.113.7"},
		{"203.0.113.7:4711", []string{"198.51.100.1"}, "ip:203.0.113.7"}, // any client can send the header
		{"10.1.2.3:80", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		// the leftmost one, where the ingress resets the header
		{"10.1.2.3:80", []string{"203.0.113.7, 10.9.9.9, 10.8.8.8"}, "ip:203.0.113.7"},
		{"10.1.2.3:80", []string{"198.51.100.1, 203.0.113.7"}, "ip:203.0.113.7"}, // its left part is forged
		{"10.1.2.3:80", []string{"198.51.100.1", "203.0.113.7, 10.9.9.9"}, "ip:203.0.113.7"},
		{"10.1.2.3:80", []string{"nonsense, 203.0.113.7"}, "ip:203.0.113.7"},
		{"10.1.2.3:80", []string{"203.0.113.7:5060"}, "ip:203.0.113.7"},
		{"10.1.2.3:80", []string{"::ffff:203.0.113.7"}, "ip:203.0.113.7"},
		{"10.1.2.3:80", []string{"[2001:db8:1:2:3:4:5:6]:443"}, "ip:2001:db8:1:2::"},
		{"10.1.2.3:80", []string{"2001:db8:1:2:aaaa::1%eth0"}, "ip:2001:db8:1:2::"},
		{"10.1.2.3:80", []string{"64:ff9b::203.0.113.7"}, "ip:203.0.113.7"}, // NAT64: all have one /64
		// Teredo, the example of RFC 4380
		{"10.1.2.3:80", []string{"2001:0:4136:e378:8000:63bf:3fff:fdd2"}, "ip:192.0.2.45"},
		{"10.1.2.3:80", []string{"64:ff9b:1::203.0.113.7"}, "ip:64:ff9b:1::"},
		{"[fd00::1]:80", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		{"[::ffff:10.1.2.3]:80", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		{"10.1.2.3:80", nil, ""}, // a proxy that names no client would share its key among all
		{"10.1.2.3:80", []string{"10.4.4.4, 10.5.5.5"}, "ip:10.4.4.4"},
		{"10.1.2.3:80", []string{"203.0.113.7, nonsense"}, ""},
		{"10.1.2.3:80", []string{""}, ""},
		{"10.1.2.3:80", []string{"203.0.113.7,"}, ""},
		{"@", nil, ""},
	} {
		got, err := proxies.Client(c.otherEnd, c.forwarded)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s with %q: %q, %v, want %q", c.otherEnd, c.forwarded, got, err, c.want)
		}
	}
	for _, none := range []string{"10.0.0.1", "::ffff:10.0.0.0/104"} {
		if _, err := ParseProxies([]string{none}); err == nil {
			t.Errorf("%s is taken for a network", none)
		}
	}
}
