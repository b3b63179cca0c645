package main

import (
	"fmt"
	"net/http"
)

type logLevelCommand struct {
	Level string `arg:"" optional:"" help:"debug, info, warn or error. Default: show what it is."`
	remote
}

// Run shows or changes the level.
func (c *logLevelCommand) Run(s streams) error {
	if len(c.urls()) > 1 {
		return usagef("log-level: say which node: --addr names several")
	}
	method := http.MethodGet
	if c.Level != "" {
		method = http.MethodPut
	}
	level, err := c.fetch("log-level", method, "/log-level", c.Level, func(string) string { return "log-level" })
	fmt.Fprint(s.out, level)
	return err
}
