package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

type healthcheckCommand struct{ remote }

// Run asks /readyz. The exit code is 1 if the node is not ready.
func (c *healthcheckCommand) Run(s streams) error {
	notReady := func(addr string) string { return addr + " is not ready" }
	_, err := c.fetch("healthcheck", http.MethodGet, "/readyz", "", notReady)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, "ready")
	return nil
}

// fetch makes a request that is not a call, and returns the body. The error for a refusal begins with that of the
// address.
func (r remote) fetch(what, method, path, body string, refused func(addr string) string) (string, error) {
	ctx, cancel := r.context()
	defer cancel()
	addr := r.reach(ctx)
	request, err := http.NewRequestWithContext(ctx, method, addr+path, strings.NewReader(body))
	if err != nil {
		return "", usageError{fmt.Errorf("--addr: %w", err)}
	}
	response, err := r.client().Do(request)
	if err != nil {
		return "", r.explain(ctx, what, err, "")
	}
	defer response.Body.Close()
	const shown = 1 << 10
	text, _ := io.ReadAll(io.LimitReader(response.Body, shown)) // a partial body is good enough to show
	if response.StatusCode == http.StatusOK {
		return string(text), nil
	}
	reason := strings.TrimSpace(string(text))
	var wire struct{ Message string } // a server that refuses a connection beyond its limit sends Connect's form
	if json.Unmarshal(text, &wire) == nil && wire.Message != "" {
		reason = wire.Message
	}
	return "", fmt.Errorf("%s: %s: %s", refused(addr), response.Status, reason)
}
