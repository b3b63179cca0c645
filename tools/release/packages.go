package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// writePackages makes the packages of Linux's distributions.
func (r *release) writePackages() error {
	for _, platform := range r.platforms {
		processor, isLinux := strings.CutPrefix(platform, "linux_")
		if !isLinux {
			continue
		}
		for _, kind := range []string{"deb", "rpm", "apk", "archlinux"} {
			said, err := r.output(r.work, "env", "ARCH="+processor, "VERSION="+r.number(),
				r.path("tools", "nfpm"), "package", "--config", "source/deploy/package/nfpm.yaml", "--packager", kind,
				"--target", r.out)
			if err != nil {
				return err
			}
			_, made, found := strings.Cut(said, "created package: ")
			if !found {
				return fmt.Errorf("nfpm said %q", said)
			}
			r.files = append(r.files, filepath.Base(strings.TrimSpace(made)))
		}
	}
	return nil
}
