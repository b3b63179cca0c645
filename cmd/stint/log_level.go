package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

type logLevelCommand struct {
	Level string `arg:"" optional:"" help:"debug, info, warn or error. Default: show what it is."`
	remote
}

// Help implements kong.HelpProvider.
func (*logLevelCommand) Help() string {
	return "The level of the node that answers, until it starts again; then it is what --log-level of stint serve says. The node's log " +
		"says who changed it. It needs the operation cluster.\n\n    stint cluster log-level debug --addr node-2:7400"
}

// Run shows or changes the level.
func (c *logLevelCommand) Run(s streams) error {
	if len(c.urls()) > 1 {
		return usagef("log-level: say which node: --addr names several")
	}
	ctx, cancel := c.context()
	defer cancel()
	method := http.MethodGet
	if c.Level != "" {
		method = http.MethodPut
	}
	request, err := http.NewRequestWithContext(ctx, method, c.reach(ctx)+"/log-level", strings.NewReader(c.Level))
	if err != nil {
		return usageError{fmt.Errorf("--addr: %w", err)}
	}
	response, err := c.client().Do(request)
	if err != nil {
		return c.explain(ctx, "log-level", err, false)
	}
	defer response.Body.Close()
	const shown = 1 << 10
	body, _ := io.ReadAll(io.LimitReader(response.Body, shown)) // a partial body is good enough to show
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("log-level: %s: %s", response.Status, reason(body))
	}
	_, err = fmt.Fprint(s.out, string(body))
	return err
}
