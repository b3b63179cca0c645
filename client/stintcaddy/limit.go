package stintcaddy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/stint-io/stint/client/stinthttp"
)

// Limit is a policy and the key that a request counts for.
type Limit struct {
	Policy string `json:"policy"`
	// Key is a text with one placeholder at most, as in user:{http.auth.user.id}. {http.vars.client_ip} alone is the
	// client's address, as Caddy's trusted_proxies tell it: "ip:203.0.113.7", and an IPv6 client by its /64. A "/", also
	// one in the value, names the parent of a policy that has one.
	Key string `json:"key,omitempty"`
	// Parts is a key of several values, in place of Key. Different values give different keys, and none names a parent.
	Parts []Part `json:"parts,omitempty"`
}

// Part is a named part of a key.
type Part struct {
	Name  string `json:"name"`
	Value string `json:"value"` // a text as in Limit.Key
}

func (l *Limit) entry() (stinthttp.Option, error) {
	if l.Policy == "" {
		return nil, errors.New("stint: a limit has no policy")
	}
	if l.Key != "" && len(l.Parts) > 0 {
		return nil, fmt.Errorf("stint: the limit %s has a key and parts", l.Policy)
	}
	if len(l.Parts) == 0 {
		key, err := keyOf(l.Policy, l.Key)
		return stinthttp.Entry(l.Policy, key), err
	}
	parts, names := make([]stinthttp.Part, len(l.Parts)), map[string]bool{"": true}
	for i, p := range l.Parts {
		if names[p.Name] {
			return nil, fmt.Errorf("stint: the limit %s has two parts %q, or one without a name", l.Policy, p.Name)
		}
		names[p.Name] = true
		value, err := keyOf(l.Policy, p.Value)
		if err != nil {
			return nil, err
		}
		parts[i] = stinthttp.Part{Name: p.Name, Value: value}
	}
	return stinthttp.EntryOf(l.Policy, parts...), nil
}

// keyOf returns the function of a text with placeholders. A text with two could be the same for different values.
func keyOf(policy, text string) (stinthttp.KeyFunc, error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("stint: the limit %s has no key: all clients would share it", policy)
	case text == "{http.vars."+caddyhttp.ClientIPVarKey+"}":
		return clientIP, nil
	case strings.Count(text, "{") > 1:
		return nil, fmt.Errorf("stint: the key %q of the limit %s has two placeholders: make parts of them, "+
			"as in a={x} b={y}", text, policy)
	}
	return func(r *http.Request) (string, error) {
		replacer, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		return replacer.ReplaceOrErr(text, true, true) // an empty value would be a key that all such clients share
	}, nil
}

// clientIP is the key of the address that Caddy believes.
func clientIP(r *http.Request) (string, error) {
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return otherEnd(&http.Request{RemoteAddr: net.JoinHostPort(address, "0")})
}

// otherEnd trusts no proxy: Caddy has already told the client's address from theirs.
var otherEnd = stinthttp.ClientIP()
