//go:build unix

package download

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLockAdmitsOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new folder", "lock")
	var inside, visits atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := lock(path)
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two hold the lock")
			}
			visits.Add(1)
			inside.Add(-1)
			unlock()
		})
	}
	wg.Wait()
	if visits.Load() != 8 {
		t.Errorf("%d of 8 got the lock", visits.Load())
	}
}

func TestRunKeepsInstalledPrograms(t *testing.T) {
	t.Parallel()
	there := item{name: "there", find: func() (string, bool) { return "/there", true }, wrap: func(string, string) error {
		return errors.New("must not be called")
	}}
	if err := run([]item{there}); err != nil {
		t.Error(err)
	}
}

func TestKeepLinksInside(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"lib/arch", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "lib/arch/ld.so"), []byte("loader"), 0o644); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"lib64/ld.so": "/lib/arch/ld.so", "lib/arch/alias": "ld.so"}
	for path, target := range links {
		if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepLinksInside(root); err != nil {
		t.Fatal(err)
	}
	for path := range links {
		if text, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(text) != "loader" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

func TestKeepSetting(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`Acquire::http::Proxy "http://proxy:3128";`:                  true,
		`Acquire::Check-Valid-Until "false";`:                        true,
		`Acquire::IndexTargets::deb::DEP-11::MetaKey "x";`:           false,
		`DPkg::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";`: false,
		`APT::Update::Post-Invoke:: "rm -f /var/cache/apt/*.bin";`:   false,
		`Dir::Etc::parts "apt.conf.d";`:                              false,
	} {
		if got := keepSetting(line); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}
