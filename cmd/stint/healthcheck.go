package main

import (
	"fmt"
	"net/http"
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
