package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run prints what the Go tool recorded of this build.
func (versionCommand) Run(s streams) error {
	version, revision := "(devel)", ""
	if build, ok := debug.ReadBuildInfo(); ok {
		if build.Main.Version != "" {
			version = build.Main.Version
		}
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				revision = " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.out, "stint %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	return err
}
