package accesstest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// withheld are commands that managed servers do not offer.
var withheld = []string{
	"CONFIG", "ACL", "DEBUG", "SHUTDOWN", "SAVE", "BGSAVE", "BGREWRITEAOF", "REPLICAOF", "MONITOR", "MODULE", "MIGRATE", "LASTSAVE",
	"PUBSUB",
}

// On a server without CONFIG, ACL and similar commands all calls work, and inspections name the parts that they could
// not check.
func TestManagedServer(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
		var lines []string
		for _, command := range withheld {
			lines = append(lines, `rename-command `+command+` ""`)
		}
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: lines})
		b := enginetest.Open(t, kind, server.URL(), prefix)
		w := workload.New(t, 2)
		w.Start(t, b)
		w.Finish(t, b)
		require.NoError(t, b.Engine.Check(ctx))
		notSeen(t, b, "CONFIG GET", "the subscribers of a channel")
		b.Settle(t)
		require.NotContains(t, b.Log(), "level=ERROR")
		b.Client.Close()
		require.NoError(t, b.Engine.Close())

		report, err := backup.Write(ctx, server.URL(), filepath.Join(t.TempDir(), "backup"), backup.Config{Prefix: prefix})
		require.NoError(t, err)
		require.Len(t, report.NotSeen, 1)
		require.Contains(t, report.NotSeen[0], "the subscribers of the channels")
	})
}

// notSeen checks that an inspection finds no fault, and names the parts that it could not check.
func notSeen(t *testing.T, b *enginetest.Bench, parts ...string) {
	t.Helper()
	report, err := b.Engine.Inspect(enginetest.Context(t))
	require.NoError(t, err)
	text := ""
	for _, f := range report.Findings {
		require.NotEqual(t, findingcode.LookFailed, f.Code, "%s", f)
		require.Less(t, f.Severity, fabrictype.SeverityError, "%s", f)
		if f.Code == findingcode.NotAllowed {
			text += f.String() + "\n"
		}
	}
	for _, part := range parts {
		require.Contains(t, text, part)
	}
}

// A user without the rights to read settings, users and channels' listeners: the same holds.
func TestUserOfAManagedServer(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		prefix := enginetest.NewPrefix()
		shared := enginetest.URL(t, kind)
		rules := func(prefix string) (string, error) {
			text, err := enginecore.DeployerRules(prefix)
			return strings.ReplaceAll(text, " +pubsub|numsub", "") + " -config -acl -pubsub -debug", err
		}
		operator := enginetest.Connect(t, shared)
		url := enginetest.AddUser(t, []rueidis.Client{operator}, shared, prefix, prefix, rules)
		b := enginetest.Open(t, kind, url, prefix, runtime.OpenConfig{})
		w := workload.New(t, 2)
		w.Start(t, b)
		w.Finish(t, b)
		require.NoError(t, b.Engine.Check(enginetest.Context(t)))
		notSeen(t, b, "CONFIG GET", "the subscribers of a channel")
	})
}
