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
	ctx, cancel := c.context()
	defer cancel()
	addr := c.reach(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/readyz", nil)
	if err != nil {
		return usageError{fmt.Errorf("--addr: %w", err)}
	}
	response, err := c.client().Do(request)
	if err != nil {
		return c.explain(ctx, "healthcheck", err, false)
	}
	defer response.Body.Close()
	const shown = 1 << 10
	body, _ := io.ReadAll(io.LimitReader(response.Body, shown)) // a partial body is good enough to show
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s: %s", addr, response.Status, reason(body))
	}
	fmt.Fprintln(s.out, "ready")
	return nil
}

// reason returns the text of a refusal. A server that refuses a connection beyond its limit sends it in Connect's form.
func reason(body []byte) string {
	var wire struct{ Message string }
	if json.Unmarshal(body, &wire) == nil && wire.Message != "" {
		return wire.Message
	}
	return strings.TrimSpace(string(body))
}
