package storm

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// The wall clocks of the processes jump by a minute in both directions, independently, several times a second. The
// processes have their own time package, which takes a while to build.
func clocksJump(t *testing.T) {
	if os.Getenv("FLOWFABRIC_SOAK") == "" {
		t.Skip("builds the standard library anew: set FLOWFABRIC_SOAK")
	}
	server := testserver.Shared(t, testserver.Valkey)
	s := newStorm(t, testserver.Valkey, server.URL(), server.URL())
	s.binary = buildWithJumpingClock(t)
	s.rage(t, func(testing.TB, *storm, *rand.Rand) {}) // it leaves half of the time without a kill
	entries, err := readDiary(s.path)
	require.NoError(t, err)
	jumps := 0
	for i := range entries[1:] {
		if apart := entries[i+1].At.Sub(entries[i].At).Abs(); apart > jump/2 {
			jumps++
		}
	}
	t.Logf("%d times, the next entry of the diary was more than %s away by the clock of its process", jumps, jump/2)
	require.Greater(t, jumps, 10)
}

const jump = time.Minute

// buildWithJumpingClock builds this test with a time.Now whose wall clock is sometimes right, sometimes a minute ahead,
// and sometimes a minute late. The monotonic clock is unaffected, as when a real clock is set.
func buildWithJumpingClock(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	require.NoError(t, err)
	const reading = "sec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, strings.Count(string(source), "func Now() Time {\n\t"+reading), "time.Now is not as it was")
	changed := strings.Replace(string(source), "func Now() Time {\n\t"+reading,
		"func Now() Time {\n\t"+reading+"\tsec += (mono/300e6%3 - 1) * 60\n", 1)
	// The compiler finds its cached results by file name.
	dir := filepath.Join(os.TempDir(), "flowfabric-jumping-clock-"+strconv.Itoa(os.Getuid()))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: write("time.go", []byte(changed))}})
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "jumping.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", write("overlay.json", overlay), "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}
