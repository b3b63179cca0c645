package stinthttp

import (
	"net/http"

	"github.com/stint-io/stint/client/internal/inbound"
	"github.com/stint-io/stint/internal/edge/clientaddr"
)

// KeyFunc returns the key that a request counts for, as in "user:42". The error explains why there is none; its text is
// shown to the sender.
type KeyFunc func(*http.Request) (key string, err error)

// ErrNoKey is in the chain of OnError's error if a request has no key. Nothing was counted.
var ErrNoKey = inbound.ErrNoKey

// ClientIP returns the address of the client as "ip:203.0.113.7", or for an IPv6 client the first address of its /64,
// as in "ip:2001:db8:0:1::": the holder of one has the 2^64 addresses beside it.
//
// trustedProxies are the networks of the proxies in front. If the connection comes from one of them, the client is the
// rightmost address of X-Forwarded-For that is not a trusted proxy's; anyone may have written the addresses to the left
// of it. If a proxy sends no such header, or an entry that is no address, there is no key: otherwise all clients would
// share the proxy's. On other connections the client is the other end.
//
// ClientIP panics if a network is malformed.
func ClientIP(trustedProxies ...string) KeyFunc {
	proxies, err := clientaddr.ParseProxies(trustedProxies)
	if err != nil {
		panic("stinthttp: ClientIP: " + err.Error())
	}
	return func(r *http.Request) (string, error) {
		return proxies.Client(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
	}
}
