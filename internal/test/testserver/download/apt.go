//go:build unix

package download

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// publicMirror is used when the machine itself names no Debian mirror that works.
const publicMirror = "http://deb.debian.org/debian"

// suites are searched in this order; apt prefers the first unless a package is only in the second.
var suites = []string{"bookworm", "bookworm-backports"}

// archive is a separate apt configuration: its own sources and lists, an empty package database, none of the machine's
// hooks. It shares with the machine only the network settings and the keys.
type archive struct {
	dir    string
	mirror string
}

// openArchive reads the package lists into dir, from the first mirror that serves them.
func openArchive(dir string) (*archive, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "apt-config", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("fetching needs a Debian or Ubuntu machine: %w", err)
		}
	}
	keyring, err := keyring(dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, mirror := range mirrors() {
		a := &archive{dir: filepath.Join(dir, "state"), mirror: mirror}
		if err := a.update(keyring); err != nil {
			errs = append(errs, err)
			continue
		}
		return a, nil
	}
	return nil, errors.Join(errs...)
}

func (a *archive) update(keyring string) error {
	if err := os.RemoveAll(a.dir); err != nil {
		return err
	}
	sources := filepath.Join(a.dir, "sources.list")
	var list strings.Builder
	for _, suite := range suites {
		fmt.Fprintf(&list, "deb [target=Packages signed-by=%s] %s %s main\n", keyring, a.mirror, suite)
	}
	err := writeConfig(a.dir,
		`Dir::Etc::sourcelist "`+sources+`";`,
		`Dir::Etc::sourceparts "/dev/null";`,
		`Dir::Etc::preferences "/dev/null";`,
		`Dir::Etc::preferencesparts "/dev/null";`,
	)
	if err != nil {
		return err
	}
	if err := os.WriteFile(sources, []byte(list.String()), 0o644); err != nil {
		return err
	}
	_, err = command(a.dir, "apt-get", "update", "-qq", "--error-on=any")
	return err
}

// unpack writes the packages of an item and all libraries they need below into.
func (a *archive) unpack(into string, it item) error {
	names, err := a.closure(it.packages)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(it.omit, name) })
	debs, err := download(a.dir, names...)
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := command(a.dir, "dpkg-deb", "-x", deb, into); err != nil {
			return err
		}
	}
	if !it.share {
		if err := os.RemoveAll(filepath.Join(into, "usr/share")); err != nil {
			return err
		}
	}
	return keepLinksInside(into)
}

// keepLinksInside makes absolute links relative, as they would lead to the machine's own files.
func keepLinksInside(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		target, err = filepath.Rel(filepath.Dir(path), filepath.Join(root, target))
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(target, path)
	})
}

// closure follows only the dependencies of running programs: packages that installation and setup need (adduser,
// debconf, init scripts) are left out.
func (a *archive) closure(packages []string) ([]string, error) {
	names := slices.Clone(packages)
	for next := packages; len(next) > 0; {
		out, err := command(a.dir, "apt-cache", append([]string{"depends", "--important"}, next...)...)
		if err != nil {
			return nil, err
		}
		next = nil
		for line := range strings.Lines(out) {
			name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
			if ok && runs(name) && !slices.Contains(names, name) {
				names = append(names, name)
				next = append(next, name)
			}
		}
	}
	return names, nil
}

// runs reports whether a program may need the package to run: libraries, their headers, and the
// parts of a compiler.
func runs(name string) bool {
	for _, prefix := range []string{"lib", "zlib1g", "binutils", "cpp-", "linux-libc-dev"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// keyring finds Debian's archive keys. A machine that is not Debian has them as a package, which
// its own apt verifies, so trust starts at the machine's own keys.
func keyring(dir string) (string, error) {
	if path, ok := keyringBelow("/"); ok {
		return path, nil
	}
	own, into := filepath.Join(dir, "machine"), filepath.Join(dir, "keys")
	if err := writeConfig(own); err != nil {
		return "", err
	}
	if _, err := command(own, "apt-get", "update", "-qq"); err != nil {
		return "", err
	}
	debs, err := download(own, "debian-archive-keyring")
	if err != nil {
		return "", err
	}
	for _, deb := range debs {
		if _, err := command(own, "dpkg-deb", "-x", deb, into); err != nil {
			return "", err
		}
	}
	path, ok := keyringBelow(into)
	if !ok {
		return "", errors.New("package debian-archive-keyring holds no usable keyring")
	}
	return path, nil
}

func keyringBelow(root string) (string, bool) {
	for _, name := range []string{"debian-archive-keyring.gpg", "debian-archive-keyring.pgp"} {
		path := filepath.Join(root, "usr/share/keyrings", name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// mirrors are those the machine is configured to use, as it may reach no other, then Debian's
// own. Some may hold something else under Debian's names; their lists then fail to verify.
func mirrors() []string {
	var out []string
	if release, err := os.ReadFile("/etc/os-release"); err == nil && strings.Contains(string(release), "\nID=debian\n") {
		cmd := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main")
		uris, err := cmd.Output()
		if err == nil {
			for _, uri := range strings.Fields(string(uris)) {
				uri = strings.TrimRight(uri, "/")
				if strings.HasSuffix(uri, "/debian") && !slices.Contains(out, uri) {
					out = append(out, uri)
				}
			}
		}
	}
	if !slices.Contains(out, publicMirror) {
		out = append(out, publicMirror)
	}
	return out
}

// writeConfig prepares dir as the home of a private apt.
func writeConfig(dir string, lines ...string) error {
	for _, sub := range []string{"lists/partial", "archives/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return err
	}
	// The configuration folder is left out because its hooks act on the real system.
	lines = append([]string{
		`Dir::Etc::main "/dev/null";`,
		`Dir::Etc::parts "/dev/null";`,
		`Dir::State "` + dir + `";`,
		`Dir::State::status "` + status + `";`,
		`Dir::Cache "` + dir + `";`,
		`Acquire::Languages "none";`,
		`Acquire::Retries "3";`,
		`APT::Sandbox::User "";`,
	}, lines...)
	dump, err := exec.Command("apt-config", "dump").Output()
	if err != nil {
		return fmt.Errorf("apt-config dump: %w", err)
	}
	for line := range strings.Lines(string(dump)) {
		if keepSetting(line) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return os.WriteFile(filepath.Join(dir, "apt.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// keepSetting reports whether a line of the machine's configuration configures the network access, such as a proxy.
func keepSetting(line string) bool {
	for _, prefix := range []string{"Acquire::IndexTargets", "Acquire::Languages", "Acquire::GzipIndexes", "Acquire::cdrom"} {
		if strings.HasPrefix(line, prefix) {
			return false
		}
	}
	return strings.HasPrefix(line, "Acquire::")
}

// download fetches exactly the named packages; apt checks them against the signed lists.
func download(dir string, names ...string) ([]string, error) {
	tmp, err := os.MkdirTemp(filepath.Join(dir, "debs"), "")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("apt-get", append([]string{"download", "-qq"}, names...)...)
	cmd.Dir = tmp
	if _, err := output(dir, cmd); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(tmp, "*.deb"))
}

func command(dir, name string, args ...string) (string, error) {
	return output(dir, exec.Command(name, args...))
}

func output(dir string, cmd *exec.Cmd) (string, error) {
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(dir, "apt.conf"), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
