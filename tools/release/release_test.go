package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestRelease makes a release twice, and one before it, and does with them what those do who get them. It takes root,
// the network of Debian's packages, and what CONTRIBUTING.md says; `make packages` runs it.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	first, second, before := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "before")
	key, public := filepath.Join(dir, "secret.key"), filepath.Join(dir, "public.key")
	run(t, "minisign", "-G", "-W", "-s", key, "-p", public)
	for _, made := range []struct {
		version, out, key string
		platforms         []string
	}{
		{"v0.2.0", first, key, allPlatforms},
		{"v0.2.0", second, "", allPlatforms},
		{"v0.1.9", before, "", []string{"linux_" + runtime.GOARCH}},
	} {
		if err := produce(made.version, made.out, made.key, made.platforms); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("its files", func(t *testing.T) { holdsTheFiles(t, first) })
	t.Run("two runs", func(t *testing.T) {
		if a, b := read(t, first, sums), read(t, second, sums); a != b {
			t.Errorf("the sums of two runs differ:\n%s\n%s", a, b)
		}
	})
	t.Run("sums and signature", func(t *testing.T) {
		run(t, "sh", "-c", `cd "$1" && sha256sum --check --strict SHA256SUMS`, "sh", second)
		run(t, "minisign", "-V", "-p", public, "-m", filepath.Join(first, sums))
	})
	t.Run("what is linked", func(t *testing.T) { namesWhatIsLinked(t, first) })
	t.Run("packages", func(t *testing.T) { holdTheSame(t, first) })
	t.Run("lintian", func(t *testing.T) {
		run(t, "lintian", "--allow-root", "--fail-on", "error", filepath.Join(first, "stint_0.2.0_amd64.deb"))
	})
	t.Run("Debian", func(t *testing.T) {
		deb := "_" + runtime.GOARCH + ".deb"
		livesInDebian(t, filepath.Join(before, "stint_0.1.9"+deb), filepath.Join(first, "stint_0.2.0"+deb))
	})
}

// holdsTheFiles holds that the sums name what a release is to have.
func holdsTheFiles(t *testing.T, dir string) {
	var names []string
	for line := range strings.Lines(read(t, dir, sums)) {
		names = append(names, strings.Fields(line)[1])
	}
	want := []string{
		"stint-0.2.0-1-aarch64.pkg.tar.zst", "stint-0.2.0-1-x86_64.pkg.tar.zst",
		"stint-0.2.0-1.aarch64.rpm", "stint-0.2.0-1.x86_64.rpm",
		"stint_0.2.0.cdx.json",
		"stint_0.2.0_aarch64.apk", "stint_0.2.0_amd64.deb", "stint_0.2.0_arm64.deb",
		"stint_0.2.0_darwin_amd64.tar.gz", "stint_0.2.0_darwin_arm64.tar.gz",
		"stint_0.2.0_linux_amd64.tar.gz", "stint_0.2.0_linux_arm64.tar.gz",
		"stint_0.2.0_x86_64.apk",
	}
	if !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
}

// holdTheSame holds that the packages of one processor have the same files, keep the same configuration, and make the
// user. Debian's is the one that is installed below: the others are only looked into, with the tools of Debian.
func holdTheSame(t *testing.T, dir string) {
	deb, rpm := filepath.Join(dir, "stint_0.2.0_amd64.deb"), filepath.Join(dir, "stint-0.2.0-1.x86_64.rpm")
	apk, arch := filepath.Join(dir, "stint_0.2.0_x86_64.apk"), filepath.Join(dir, "stint-0.2.0-1-x86_64.pkg.tar.zst")
	want := filesIn(run(t, "sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar t`, "sh", deb))
	for _, name := range []string{"usr/bin/stint", "usr/lib/systemd/system/stint.service",
		"usr/lib/systemd/system/stint-backup.timer", "etc/stint/stint.yaml", "usr/share/man/man1/stint-serve.1.gz",
		"usr/share/doc/stint/third-party-licenses"} {
		if !slices.Contains(want, name) {
			t.Errorf("the deb has no %s: %q", name, want)
		}
	}
	for name, list := range map[string]string{"rpm": run(t, "rpm", "-qpl", rpm), "apk": run(t, "tar", "tzf", apk),
		"arch": run(t, "tar", "tf", arch, "--zstd")} {
		if has := filesIn(list); !slices.Equal(has, want) {
			t.Errorf("%s has %q, and the deb %q", name, has, want)
		}
	}
	for _, c := range []struct{ has, said string }{
		{"/etc/default/stint\n/etc/stint/stint.yaml", run(t, "rpm", "-qpc", rpm)},
		{"systemd-sysusers stint.conf", run(t, "rpm", "-qp", "--scripts", rpm)},
		{"backup = etc/stint/stint.yaml", run(t, "tar", "xf", arch, "--zstd", "-O", ".PKGINFO")},
		{"systemd-sysusers stint.conf", run(t, "tar", "xf", arch, "--zstd", "-O", ".INSTALL")},
		{"systemd-sysusers stint.conf", run(t, "tar", "xzf", apk, "-O", ".post-install")},
		{"-G stint stint\n", run(t, "tar", "xzf", apk, "-O", ".post-install")}, // busybox makes no group by itself
		{"systemd-sysusers stint.conf", run(t, "tar", "xzf", apk, "-O", ".post-upgrade")},
		{"disable --now stint.service", run(t, "tar", "xzf", apk, "-O", ".pre-deinstall")},
	} {
		if !strings.Contains(c.said, c.has) {
			t.Errorf("%q is not in %s", c.has, c.said)
		}
	}
}

// filesIn are the files of a list, sorted, without what only one kind of package has: directories, the package's own
// notes, Lintian's exceptions. Zsh looks elsewhere on Debian.
func filesIn(list string) (names []string) {
	for name := range strings.Lines(list) {
		name = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(name), "."), "/")
		if strings.Contains(name, "/") && !strings.HasSuffix(name, "/") && !strings.Contains(name, "/lintian/") {
			names = append(names, strings.Replace(name, "vendor-completions/_stint", "site-functions/_stint", 1))
		}
	}
	slices.Sort(names)
	return names
}

// namesWhatIsLinked holds that each module of the binary that is in an archive has its text there, and is in the bill
// of materials.
func namesWhatIsLinked(t *testing.T, dir string) {
	unpacked := t.TempDir()
	run(t, "tar", "xzf", filepath.Join(dir, "stint_0.2.0_linux_"+runtime.GOARCH+".tar.gz"), "-C", unpacked,
		"--strip-components=1")
	if said := run(t, filepath.Join(unpacked, "stint"), "version"); !strings.HasPrefix(said, "stint v0.2.0 ") {
		t.Errorf("the binary of the archive says %q", said)
	}
	info, err := buildinfo.ReadFile(filepath.Join(unpacked, "stint"))
	if err != nil {
		t.Fatal(err)
	}
	texts := read(t, unpacked, "third-party-licenses")
	var bill struct {
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component struct{ Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal([]byte(read(t, dir, "stint_0.2.0.cdx.json")), &bill); err != nil {
		t.Fatal(err)
	}
	if bill.SerialNumber != "" || bill.Metadata.Timestamp != "" || bill.Metadata.Component.Version != "v0.2.0" {
		t.Errorf("the bill has %q, %+v", bill.SerialNumber, bill.Metadata)
	}
	if len(info.Deps) < 20 {
		t.Errorf("the binary links %d modules only", len(info.Deps))
	}
	for _, module := range info.Deps {
		if !strings.Contains(texts, "---- "+module.Path+" "+module.Version+": ") {
			t.Errorf("%s has no text", module.Path)
		}
		if !slices.ContainsFunc(bill.Components, func(c struct{ Name, Version string }) bool {
			return c.Name == module.Path && c.Version == module.Version
		}) {
			t.Errorf("%s is not in the bill of materials", module.Path)
		}
	}
}

// livesInDebian boots a Debian that is made for it, and installs, starts, upgrades, removes and purges a package there.
func livesInDebian(t *testing.T, before, now string) {
	root := t.TempDir()
	run(t, "sh", "-c", `set -e; . /etc/os-release
		mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$VERSION_CODENAME //p" | head -n 1)
		PATH=$PATH:/usr/sbin debootstrap --variant=minbase --include=systemd "$VERSION_CODENAME" "$1" "$mirror"`, "sh",
		root)
	for name, from := range map[string]string{"before.deb": before, "now.deb": now,
		"policies.yaml": "../../policy/dev.yaml", "life.sh": "testdata/life.sh"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(run(t, "sh", "testdata/boot.sh", root))
}

func read(t *testing.T, names ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(names...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
