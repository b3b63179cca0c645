package main

import (
	"fmt"
	"os"

	"github.com/stint-io/stint/policy"
)

type importCommand struct {
	Envoy importEnvoyCommand `cmd:"" help:"Turn files of envoyproxy/ratelimit into a policies file."`
}

type importEnvoyCommand struct {
	Files []string `arg:"" name:"file" help:"Configuration of envoyproxy/ratelimit; files of one domain are joined."`
}

// Run prints the policies file.
func (c *importEnvoyCommand) Run(s streams) error {
	var m policy.EnvoyImport
	for _, name := range c.Files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := m.Read(name, data); err != nil {
			return err
		}
	}
	set, err := m.Set()
	if err != nil {
		return err
	}
	for _, note := range m.Notes {
		fmt.Fprintln(s.err, note)
	}
	raw(s.out).Write(policy.Format(set))
	return nil
}
