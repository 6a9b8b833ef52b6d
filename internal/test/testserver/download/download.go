//go:build unix

package download

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// item is something the tests need and the packages of Debian bookworm that provide it. The
// suite is fixed: Redis 7 and a Valkey 8 that runs with the same C library exist only there.
type item struct {
	name     string
	packages []string
	hint     string
	find     func() (path string, ok bool)
	// omit are packages that the machine's own packages replace, share whether files below usr/share are kept.
	omit  []string
	share bool
	// wrap writes commands into bin that run the programs below root.
	wrap func(bin, root string) error
}

func servers() []item {
	return []item{
		{
			name:     "redis",
			packages: []string{"redis-server", "redis-tools"},
			hint:     testserver.Hint(testserver.Redis),
			find:     func() (string, bool) { return testserver.Available(testserver.Redis) },
			wrap:     wrapServer("redis-server", "redis-cli"),
		},
		{
			name:     "valkey",
			packages: []string{"valkey-server", "valkey-tools"},
			hint:     testserver.Hint(testserver.Valkey),
			find:     func() (string, bool) { return testserver.Available(testserver.Valkey) },
			wrap:     wrapServer("valkey-server", "valkey-cli"),
		},
		{
			name:     "prometheus",
			packages: []string{"prometheus"},
			hint:     "install prometheus, with promtool",
			find:     func() (string, bool) { return testserver.Tool("promtool") },
			wrap:     wrapServer("prometheus", "promtool"),
		},
	}
}

// Servers fetches the missing servers. The error names each server that could not be fetched, and the package to
// install.
func Servers() error { return run(servers()) }

// Compiler fetches a C compiler if there is none, and returns the value of CC to use.
func Compiler() (string, error) {
	if err := run([]item{compiler()}); err != nil {
		return "", err
	}
	return compilerPath()
}

func run(items []item) error {
	if len(missing(items)) == 0 {
		return nil
	}
	cache, err := testserver.Cache()
	if err != nil {
		return err
	}
	unlock, err := lock(cache + ".lock")
	if err != nil {
		return err
	}
	defer unlock()

	// A previous holder of the lock may have fetched them.
	wanted := missing(items)
	if len(wanted) == 0 {
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(cache), "servers-*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	// Not below the checkout, whose path may hold characters that apt's files cannot express.
	state, err := os.MkdirTemp("", "flowfabric-apt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)

	a, err := openArchive(state)
	var errs []error
	for _, it := range wanted {
		e := err
		if e == nil {
			e = install(a, it, cache, filepath.Join(tmp, it.name))
		}
		if e != nil {
			errs = append(errs, fmt.Errorf("%s is missing and could not be fetched: %w\n  %s", it.name, e, it.hint))
		}
	}
	return errors.Join(errs...)
}

func missing(items []item) []item {
	var out []item
	for _, it := range items {
		if _, ok := it.find(); !ok {
			out = append(out, it)
		}
	}
	return out
}

// install unpacks it into tmp and moves it into the cache. Its commands are written last, so a
// command that exists can be used, whatever became of an earlier attempt.
func install(a *archive, it item, cache, tmp string) error {
	fmt.Fprintf(os.Stderr, "fetching %s from %s\n", it.name, a.mirror)
	if err := a.unpack(tmp, it); err != nil {
		return err
	}
	root, bin := filepath.Join(cache, it.name), filepath.Join(cache, "bin")
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, root); err != nil {
		return err
	}
	if err := it.wrap(bin, root); err != nil {
		return err
	}
	path, ok := it.find()
	if !ok {
		return errors.New("the fetched programs do not run on this machine")
	}
	fmt.Fprintf(os.Stderr, "fetched %s\n", path)
	return nil
}

// lock waits for the only right to change the cache. The system gives it back when the process
// ends, however it ends.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
