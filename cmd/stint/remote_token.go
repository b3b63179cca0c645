package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/stint-io/stint/internal/edge/auth"
)

// tokenFlag has the flag of the token for every request.
type tokenFlag struct {
	TokenFile string `help:"File with the token to send; else the one in STINT_TOKEN." placeholder:"FILE" env:"STINT_TOKEN_FILE"`
}

// proof has the flags that authenticate a command.
type proof struct {
	tokenFlag
	// DataDir takes precedence over --addr.
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

// maySendTokenTo refuses addresses if others could read a token on the way.
func maySendTokenTo(u *url.URL) error {
	if u.Scheme == "https" || onThisMachine(u) {
		return nil
	}
	return fmt.Errorf("a token is not sent in the clear to %s: use https://, or an address of this machine", u.Host)
}
