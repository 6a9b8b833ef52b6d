package storm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

const mebi = 1 << 20

// series are measurements of one thing in the order of time. Those below zero were not possible, and do not count.
type series []int

func (s *series) add(n int) {
	if n >= 0 {
		*s = append(*s, n)
	}
}

// span is the least and the most of it, in a unit.
func (s series) span(unit float64) string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s to %s", inUnit(slices.Min(s), unit), inUnit(slices.Max(s), unit))
}

func (s series) scaled(unit float64) []string {
	list := make([]string, len(s))
	for i, n := range s {
		list[i] = inUnit(n, unit)
	}
	return list
}

func inUnit(n int, unit float64) string {
	if unit == 1 {
		return strconv.Itoa(n)
	}
	return strconv.FormatFloat(float64(n)/unit, 'f', 1, 64)
}

// flat checks that a series does not grow: the median of its last quarter is at most a tenth, and the slack, above the
// median of its second quarter. The first quarter is left out as warm-up, and short series are not checked.
func (s series) flat(t *testing.T, what string, slack int) {
	t.Helper()
	const enough = 12
	if len(s) < enough {
		return
	}
	quarter := len(s) / 4
	early, late := median(s[quarter:2*quarter]), median(s[len(s)-quarter:])
	t.Logf("%s: median %d in the second quarter, %d in the last", what, early, late)
	assert.LessOrEqual(t, late, early+early/10+slack, "%s has grown: %v", what, s)
}

func median(s series) int {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

func goroutines() int { return goruntime.NumGoroutine() }

// descriptorsOf counts the open files of a process, or returns -1 on systems without /proc.
func descriptorsOf(pid int) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return -1
	}
	return len(list)
}

// residentOf returns the resident memory of a process in bytes, or -1 on systems without /proc.
func residentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return -1
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return -1
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return -1
	}
	return pages * os.Getpagesize()
}

// cpuTime is the processor time of this process and of its ended child processes.
func cpuTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

// sizeOf is the size of the files below a directory, in bytes.
func sizeOf(dir string) int {
	size := 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was replaced in the meantime
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			size += int(info.Size())
		}
		return nil
	})
	return size
}

// kindsOf counts keys by their beginnings.
func kindsOf(keys []string) map[string]int {
	kinds := make(map[string]int)
	for _, key := range keys {
		_, rest, _ := strings.Cut(key, ":")
		kind := partOfKey.ReplaceAllString(rest, "")
		if head, tail, tagged := strings.Cut(kind, ":::"); tagged {
			first, _, _ := strings.Cut(tail, ":")
			kind = head + ":" + first
		}
		kinds[kind]++
	}
	return kinds
}

// partOfKey is a hash tag or an id.
var partOfKey = regexp.MustCompile(`\{[^}]*\}|[0-9a-f]{8}-[0-9a-f-]{27}`)

// lastingKeys are the keys of the storm that are there until a call deletes them. Others, such as records of workers, of
// reports of usage and of bulk jobs, are kept for days, whatever becomes of their runs.
func (s *storm) lastingKeys(t *testing.T) []string {
	t.Helper()
	ctx, client := enginetest.Context(t), s.bench.Operator()
	keys, err := invariant.Keys(ctx, client, s.bench.Prefix)
	require.NoError(t, err)
	var reads rueidis.Commands
	for _, key := range keys {
		reads = append(reads, client.B().Pttl().Key(key).Build())
	}
	var lasting []string
	for i, reply := range client.DoMulti(ctx, reads...) {
		left, err := reply.AsInt64()
		require.NoError(t, err)
		if left == -1 && !strings.Contains(keys[i], ":bulk_job:") {
			lasting = append(lasting, keys[i])
		}
	}
	return lasting
}
