package testserver

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// clockSource is a C library that shifts the clock of a server by the offset in a file.
//
//go:embed clocklib/clock.c
var clockSource []byte

// clockFile has the offset of the clock of a server in seconds.
const clockFile = "clock"

// CanSetClocks reports whether there is a C compiler, which [Options.Clock] needs: the one that CC names, or cc.
func CanSetClocks() bool {
	_, err := exec.LookPath(cc())
	return err == nil
}

func cc() string { return cmp.Or(os.Getenv("CC"), "cc") }

// clockEnvironment returns the environment of a server whose clock can be set.
func clockEnvironment(dir string) ([]string, error) {
	clock, library := filepath.Join(dir, clockFile), filepath.Join(dir, "clock.so")
	if _, err := os.Stat(library); errors.Is(err, os.ErrNotExist) {
		source := filepath.Join(dir, "clock.c")
		if err := errors.Join(os.WriteFile(source, clockSource, 0o600), writeClock(clock, 0)); err != nil {
			return nil, err
		}
		out, err := exec.Command(cc(), "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("compile the library that sets clocks: %w\n%s", err, out)
		}
	}
	return append(os.Environ(), "LD_PRELOAD="+library, "FLOWFABRIC_CLOCK="+clock), nil
}

// writeClock changes the file in place, since servers have it in their memory.
func writeClock(path string, offset time.Duration) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(int64(offset/time.Second))))
	return errors.Join(err, file.Close())
}

// SetClock sets the clock of a server with [Options.Clock] ahead of the machine's clock or back, by whole seconds, and
// returns when the server shows it.
func (s *Server) SetClock(tb testing.TB, offset time.Duration) {
	tb.Helper()
	s.own("SetClock")
	if err := writeClock(filepath.Join(s.dir, clockFile), offset); err != nil {
		tb.Fatalf("testserver: set the clock: %v", err)
	}
	await(tb, "the server does not show the clock that was set", func() bool {
		shown, err := strconv.ParseInt(s.Query(tb, "EVAL", "return redis.call('TIME')[1]", "0"), 10, 64)
		if err != nil {
			return false
		}
		behind := time.Since(time.Unix(shown, 0).Add(-offset))
		return behind > -3*time.Second && behind < 3*time.Second
	})
}
