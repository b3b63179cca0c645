package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/node"
)

// tokenFlag has the flag of the token for every request.
type tokenFlag struct {
	TokenFile string `help:"File with the token to send; else the one in STINT_TOKEN." placeholder:"FILE" env:"STINT_TOKEN_FILE"`
}

// proof has the flags that authenticate a command.
type proof struct {
	tokenFlag
	DataDir string `help:"Ask the node that runs on this data directory, by its socket, which needs no token." placeholder:"DIR"`
}

// token returns the token to send, or "".
func (p tokenFlag) token() (string, error) {
	text, from := os.Getenv("STINT_TOKEN"), "STINT_TOKEN"
	if p.TokenFile != "" {
		file, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		text, from = string(file), "--token-file: what "+p.TokenFile+" holds"
	}
	text = strings.TrimSpace(text)
	if text == "" && p.TokenFile == "" {
		return "", nil
	}
	if _, _, err := auth.ParseToken(text); err != nil {
		return "", fmt.Errorf("%s %w", from, err)
	}
	return text, nil
}

// client sends requests according to the flags.
func (r remote) client() *http.Client {
	transport := r.transport()
	if r.DataDir != "" {
		transport = &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return node.DialLocal(ctx, r.DataDir)
			}}
	}
	return &http.Client{Transport: leavesTime{addressed{transport, r}}}
}

// anyAddress is the address of requests that go to whichever address reach chooses.
const anyAddress = "http://any"

// addressed sends each request to its address, with a token if there is one.
type addressed struct {
	http.RoundTripper
	remote remote
}

// RoundTrip implements http.RoundTripper. It sends no token over a connection that others could read.
func (a addressed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if "http://"+request.URL.Host == anyAddress {
		chosen, err := url.Parse(a.remote.reach(request.Context()))
		if err != nil {
			return nil, err
		}
		u := request.URL
		u.Scheme, u.Host, u.Path, request.Host = chosen.Scheme, chosen.Host, chosen.Path+u.Path, chosen.Host
	}
	if a.remote.DataDir != "" {
		return a.RoundTripper.RoundTrip(request)
	}
	token, err := a.remote.token()
	if err == nil && token != "" {
		err = maySendTokenTo(request.URL)
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if err != nil {
		return nil, err
	}
	return a.RoundTripper.RoundTrip(request)
}

// maySendTokenTo refuses addresses if others could read a token on the way.
func maySendTokenTo(u *url.URL) error {
	if u.Scheme == "https" || onThisMachine(u) {
		return nil
	}
	return fmt.Errorf("a token is not sent in the clear to %s: use https://, or an address of this machine", u.Host)
}

// onThisMachine reports whether only this machine reaches an address.
func onThisMachine(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// tokenTo returns the token to send to several addresses, or "".
func (p tokenFlag) tokenTo(addresses []string) (string, error) {
	token, err := p.token()
	if err != nil || token == "" {
		return "", err
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil {
			return "", err
		}
		if err := maySendTokenTo(u); err != nil {
			return "", err
		}
	}
	return token, nil
}
