// Command release makes the files of a release out of the commit that is checked out: packages, archives, the bill of
// materials and their sums. It works on an export of that commit, so neither changes that are not committed nor the
// directory it is in can be seen in what it makes: two runs with the same Go make the same bytes. `make release` runs
// it.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"regexp"
)

func main() {
	log.SetFlags(0)
	version := flag.String("version", "", "what the release is called, as v0.2.0; no tag is needed")
	out := flag.String("out", "../../dist", "directory for the files")
	key := flag.String("key", "", "file with the secret key of minisign to sign the sums with; none: "+
		"they are not signed")
	binary := flag.String("licenses", "", "write the licenses of what this binary of stint links to stdout, "+
		"and make no release")
	flag.Parse()
	if *binary != "" {
		if err := writeThirdParty(os.Stdout, "../..", []string{*binary}); err != nil {
			log.Fatalf("release: %v", err)
		}
		return
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(*version) || flag.NArg() > 0 {
		log.Fatal("release: say which version, as in -version v0.2.0")
	}
	if err := produce(*version, *out, *key, allPlatforms); err != nil {
		log.Fatalf("release: %v", err)
	}
}

// produce makes a release for the platforms in a directory of its own, which it removes.
func produce(version, out, key string, platforms []string) error {
	work, err := os.MkdirTemp("", "stint-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r := &release{version: version, work: work, out: out, platforms: platforms}
	steps := []func() error{r.export, r.build, r.writeManual, r.writeLicenses, r.writeArchives, r.writePackages,
		r.writeSBOM, r.writeSums}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if key == "" {
		return nil
	}
	if key, err = filepath.Abs(key); err != nil {
		return err
	}
	return r.run(out, "minisign", "-S", "-s", key, "-m", sums)
}
