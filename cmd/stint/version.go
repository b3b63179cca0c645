package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run prints the build information that the Go tool recorded.
func (versionCommand) Run(s streams) error {
	revision := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				revision = " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.out, "stint %s%s %s %s/%s\n", version(), revision, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	return err
}

// version returns the release of this build, as the Go tool recorded it.
func version() string {
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(devel)"
}
