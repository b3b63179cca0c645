package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

type healthcheckCommand struct{ remote }

// Run asks /readyz. Not ready is exit code 1.
func (c *healthcheckCommand) Run(s streams) error {
	ctx, cancel := c.context()
	defer cancel()
	addr := c.reach(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/readyz", nil)
	if err != nil {
		return usageError{fmt.Errorf("--addr: %w", err)}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return c.explain(ctx, "healthcheck", err, false)
	}
	defer response.Body.Close()
	const shown = 1 << 10
	body, _ := io.ReadAll(io.LimitReader(response.Body, shown)) // what could be read of it is good enough to show
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s: %s", addr, response.Status, strings.TrimSpace(string(body)))
	}
	fmt.Fprintln(s.out, "ready")
	return nil
}
