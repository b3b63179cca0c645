package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licenseFile matches the names of the files whose texts a module asks to be passed on.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)

// knownPercent is the share of a text, in percent, from which on it is the license that it looks like.
const knownPercent = 75

// writeLicenses writes the texts for what the binaries of all platforms link.
func (r *release) writeLicenses() error {
	var binaries []string
	for _, platform := range r.platforms {
		binaries = append(binaries, r.path(platform, "stint"))
	}
	var text bytes.Buffer
	if err := writeThirdParty(&text, r.path("source"), binaries); err != nil {
		return err
	}
	return os.WriteFile(r.path("third-party-licenses"), text.Bytes(), 0o644)
}

// writeThirdParty writes the texts of Go and of all modules that some binary links. A module without one that is known
// is an error. source is the directory of stint's module.
func writeThirdParty(to io.Writer, source string, binaries []string) error {
	modules, err := linkedModules(binaries)
	if err != nil {
		return err
	}
	root, err := goOutput(source, "env", "GOROOT")
	if err != nil {
		return err
	}
	fmt.Fprint(to, "stint links these modules. Their source is what the Go module proxy has under path and version.\n"+
		"stint is under the Apache License 2.0.\n")
	if err := writeTexts(to, "Go", strings.TrimSpace(root)); err != nil {
		return err
	}
	listed, err := goOutput(source, append([]string{"mod", "download", "-json"}, modules...)...)
	if err != nil {
		return err
	}
	for each := json.NewDecoder(strings.NewReader(listed)); ; {
		var module struct{ Path, Version, Dir string }
		if err := each.Decode(&module); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := writeTexts(to, module.Path+" "+module.Version, module.Dir); err != nil {
			return err
		}
	}
}

// goOutput runs the command go in the directory of stint's module.
func goOutput(source string, args ...string) (string, error) {
	command := exec.Command("go", args...)
	command.Dir, command.Stderr = source, os.Stderr
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// linkedModules lists the modules that binaries link, as path@version.
func linkedModules(binaries []string) ([]string, error) {
	modules := map[string]bool{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
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
		if !file.Type().IsRegular() || !licenseFile.MatchString(file.Name()) {
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
		licensed = licensed || found.Percent >= knownPercent
		fmt.Fprintf(to, "\n---- %s: %s (%s)\n\n%s\n", module, file.Name(), strings.Join(names, ", "),
			strings.TrimSpace(string(text)))
	}
	if !licensed {
		return fmt.Errorf("%s has no text in %s that is known to be a license", module, dir)
	}
	return nil
}
