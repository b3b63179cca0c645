package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/stint-io/stint/shard"
)

// Release builds set these at link time (-ldflags "-X main.release=v0.2.0"), so that they do not depend on a checkout.
// If empty, the Go tool has recorded them, as `go install` of a version does.
var release, revision string

type versionCommand struct{ output }

// build describes this program.
type build struct {
	Version  string      `json:"version"`
	Revision string      `json:"revision,omitempty"`
	Go       string      `json:"go"`
	Platform string      `json:"platform"`
	Levels   buildLevels `json:"featureLevels"`
}

// buildLevels are the feature levels of the formats that this program reads.
type buildLevels struct {
	Oldest shard.Level `json:"oldest"`
	Newest shard.Level `json:"newest"`
}

// Run prints the version and the levels of this program.
func (c versionCommand) Run(s streams) error {
	b := build{version(), revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH,
		buildLevels{shard.LevelFirst, shard.LevelNewest}}
	if recorded, ok := debug.ReadBuildInfo(); ok && b.Revision == "" {
		for _, setting := range recorded.Settings {
			if setting.Key == "vcs.revision" {
				b.Revision = setting.Value
			}
		}
	}
	if c.json() {
		return printJSON(s, b)
	}
	line := "stint " + b.Version
	if b.Revision != "" {
		line += " " + b.Revision
	}
	fmt.Fprintf(s.out, "%s %s %s\n", line, b.Go, b.Platform)
	return nil
}

// version returns the release of this build.
func version() string {
	if release != "" {
		return release
	}
	if recorded, ok := debug.ReadBuildInfo(); ok && recorded.Main.Version != "" {
		return recorded.Main.Version
	}
	return "(devel)"
}
