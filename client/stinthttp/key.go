package stinthttp

import (
	"net/http"

	"github.com/stint-io/stint/client/internal/inbound"
	"github.com/stint-io/stint/internal/edge/clientaddr"
)

// KeyFunc names whom a request counts for, as in "user:42". An error says why there is no key; its text is shown to the sender.
type KeyFunc func(*http.Request) (key string, err error)

// ErrNoKey is in the chain of what OnError gets if a request has no key. Nothing was counted.
var ErrNoKey = inbound.ErrNoKey

// ClientIP returns the address of the client as "ip:203.0.113.7", or of an IPv6 client the first one of its /64, as in
// "ip:2001:db8:0:1::": whoever has one has the 2^64 addresses beside it.
//
// trustedProxies are the networks of the proxies in front. If the connection comes from one of them, the client is the rightmost
// address of X-Forwarded-For that no trusted proxy has; what is left of it, anybody may have written. A proxy that sends no such
// header, or an entry that is no address, makes no key: otherwise all clients would share that of the proxy. From elsewhere the
// client is the other end of the connection.
//
// ClientIP panics if a network is none.
func ClientIP(trustedProxies ...string) KeyFunc {
	proxies, err := clientaddr.ParseProxies(trustedProxies)
	if err != nil {
		panic("stinthttp: ClientIP: " + err.Error())
	}
	return func(r *http.Request) (string, error) {
		return proxies.Client(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
	}
}
