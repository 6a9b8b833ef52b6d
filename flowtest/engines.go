package flowtest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/download"
)

// What a test on a server waits for takes real time.
const (
	// serverPatience is how long an assertion waits by default.
	serverPatience = time.Minute
	// longestAdvance is the longest time that a test on a server lets pass.
	longestAdvance = 10 * time.Second
	// serverSettle is how long Is and Attempts wait for what messages bring about, on a machine that may be busy.
	serverSettle = 10 * time.Second
)

// Engines runs a test on each kind of engine, as subtests: in a bubble, as Run does, and on a Redis 7 and a Valkey 8
// server, with real time. FLOWFABRIC_TEST_ENGINES selects some of "embedded", "redis" and "valkey". A server that is
// not installed is downloaded into the user's cache folder, on Debian and Ubuntu without root rights; elsewhere, and
// when that fails, the test fails and says what to install.
//
// On a server, Patience is a minute by default, and T.Advance really waits: it skips the rest of the test when that
// would be more than 10 s. Servers are shared by the tests of a process; each test has a database of its own.
func Engines(t *testing.T, test func(t *T), opts ...Option) {
	t.Helper()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			switch kind {
			case testserver.Embedded:
				Run(t, test, opts...)
			case testserver.Redis, testserver.Valkey:
				runOnServer(t, kind, test, opts)
			default:
				t.Skipf("flowtest: tests do not run on a %s", kind)
			}
		})
	}
}

// fetched is the outcome of fetching the servers that this machine lacks, once for the process.
var fetched = sync.OnceValue(download.Servers)

func runOnServer(t *testing.T, kind testserver.Kind, test func(t *T), opts []Option) {
	t.Helper()
	if _, ok := testserver.Available(kind); !ok {
		if err := fetched(); err != nil {
			t.Fatalf("flowtest: %v", err)
		}
	}
	x := newT(t, config{patience: serverPatience}, opts)
	x.place = place{
		url:    testserver.Database(t, kind),
		prefix: "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20], // channels are shared by all databases
	}
	x.run(test)
}
