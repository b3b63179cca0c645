package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// legal matches the names of files that a module wants to be passed on.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)

// known is the share of a text, in percent, from which on it is the license that it looks like.
const known = 75

// writeLicenses writes the texts of Go and of all modules that some binary links. A module without one that is known
// ends the release.
func (r *release) writeLicenses() error {
	modules, err := r.linked()
	if err != nil {
		return err
	}
	root, err := r.ask(r.work, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "stint %s links these modules. Their source is what the Go module proxy has under path and version.\n"+
		"stint is under the Apache License 2.0.\n", r.version)
	if err := writeTexts(&text, "Go", strings.TrimSpace(root)); err != nil {
		return err
	}
	listed, err := r.ask(r.path("source"), "go", append([]string{"mod", "download", "-json"}, modules...)...)
	if err != nil {
		return err
	}
	for each := json.NewDecoder(strings.NewReader(listed)); ; {
		var module struct{ Path, Version, Dir string }
		if err := each.Decode(&module); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := writeTexts(&text, module.Path+" "+module.Version, module.Dir); err != nil {
			return err
		}
	}
	return os.WriteFile(r.path("third-party-licenses"), []byte(text.String()), 0o644)
}

// linked lists the modules that the binaries link, as path@version.
func (r *release) linked() ([]string, error) {
	modules := map[string]bool{}
	for _, platform := range r.platforms {
		info, err := buildinfo.ReadFile(r.path(platform, "stint"))
		if err != nil {
			return nil, err
		}
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			modules[module.Path+"@"+module.Version] = true
		}
	}
	return slices.Sorted(maps.Keys(modules)), nil
}

// writeTexts writes the texts that a module has in its root.
func writeTexts(to io.Writer, module, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	licensed := false
	for _, file := range files {
		if !file.Type().IsRegular() || !legal.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		found := licensecheck.Scan(text)
		var names []string
		for _, match := range found.Match {
			if !slices.Contains(names, match.ID) {
				names = append(names, match.ID)
			}
		}
		licensed = licensed || found.Percent >= known
		fmt.Fprintf(to, "\n---- %s: %s (%s)\n\n%s\n", module, file.Name(), strings.Join(names, ", "), strings.TrimSpace(string(text)))
	}
	if !licensed {
		return fmt.Errorf("%s has no text in %s that is known to be a license", module, dir)
	}
	return nil
}
