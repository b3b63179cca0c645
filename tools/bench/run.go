package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
)

type runCommand struct {
	load `embed:""`
}

// Run is the command.
func (c *runCommand) Run(ctx context.Context) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
	report, err := c.drive(ctx, p)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	if !report.Verdict.OK {
		return errors.New(report.Verdict.Text)
	}
	return nil
}
