package flowtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The waits of a test on a server take real time.
const (
	// serverPatience is how long an assertion waits by default.
	serverPatience = time.Minute
	// longestAdvance is the longest time that a test on a server lets pass.
	longestAdvance = 10 * time.Second
	// serverSettle is how long Is and Attempts wait for the effects of messages, on a machine that may be busy.
	serverSettle = 10 * time.Second
)

// urlsVariable lists the servers of Engines.
const urlsVariable = "FLOWFABRIC_TEST_URLS"

// Engines runs a test in a bubble, as Run does, and on each server that the environment variable FLOWFABRIC_TEST_URLS
// lists, with real time. The variable has URLs as runtime.Open takes them, separated by spaces; an unset one means the
// bubble alone. The subtests have the names "embedded" and, for servers, the scheme of the URL: "valkey", "redis 2".
//
// On a server, Patience is a minute by default, and T.Advance really waits: it skips the rest of the test when that
// would be more than 10 s. Each test has its own key prefix, so tests may share a server with each other and with other
// programs, and removes its keys at its end.
func Engines(t *testing.T, test func(t *T), opts ...Option) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { Run(t, test, opts...) })
	names := make(map[string]int)
	for _, address := range strings.Fields(os.Getenv(urlsVariable)) {
		name, _, _ := strings.Cut(address, ":") // runtime.Open refuses a URL that is wrong, without its password
		if names[name]++; names[name] > 1 {
			name = fmt.Sprint(name, " ", names[name])
		}
		t.Run(name, func(t *testing.T) { runOnServer(t, address, test, opts) })
	}
}

func runOnServer(t *testing.T, address string, test func(t *T), opts []Option) {
	t.Helper()
	x := newT(t, config{patience: serverPatience}, opts)
	x.place = place{url: address, prefix: "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20]}
	t.Cleanup(func() {
		if x.engine == nil {
			return // the server could not be opened, which has failed the test
		}
		if err := removeKeys(address, x.place.prefix); err != nil {
			t.Errorf("flowtest: remove the keys of the test: %v", err)
		}
	})
	x.run(test)
}

// removeKeys removes all keys with a prefix from each node of a server.
func removeKeys(address, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), serverPatience)
	defer cancel()
	e, err := runtime.Open(ctx, address, runtime.OpenConfig{AllowVolatile: true, Prefix: prefix})
	if err != nil {
		return err
	}
	defer e.Close()
	client := engine.ConnOf(e.Internal()).Client()
	for _, node := range client.Nodes() {
		if err := removeKeysOf(ctx, client, node, prefix); err != nil {
			return err
		}
	}
	return nil
}

func removeKeysOf(ctx context.Context, client, node rueidis.Client, prefix string) error {
	cursor := uint64(0)
	for {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+":*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		removals := make([]rueidis.Completed, len(page.Elements)) // in a cluster, keys of one call belong to one slot
		for i, key := range page.Elements {
			removals[i] = client.B().Unlink().Key(key).Build()
		}
		for _, reply := range client.DoMulti(ctx, removals...) {
			if err := reply.Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
