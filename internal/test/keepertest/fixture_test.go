package keepertest

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// fixture gives a test the calls of another program of the contract, and a worker that makes them one by one.
type fixture struct {
	*admin.Client
	*enginetest.Bench
	*enginetest.Program
	t    *testing.T
	ctx  context.Context
	core *enginerpc.Conn
	keys enginerpc.Keys
}

func newFixture(t *testing.T, b *enginetest.Bench) *fixture {
	core := engine.ConnOf(b.Engine.Internal())
	ctx := enginetest.Context(t)
	ops, err := admin.New(b.Engine)
	require.NoError(t, err)
	return &fixture{ops, b, b.Program(ctx, t), t, ctx, core, core.Keys()}
}

func (d *fixture) create(n admin.ExecutionSpec) enginecore.ExecutionID {
	d.t.Helper()
	n.Kind = "work"
	id, _, err := d.CreateExecution(d.ctx, n)
	require.NoError(d.t, err)
	return id
}

// do sends a command to the server of its key.
func (d *fixture) do(words ...string) rueidis.RedisResult {
	d.t.Helper()
	client := d.core.Client()
	result := client.Do(d.ctx, client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		require.NoError(d.t, err, words)
	}
	return result
}

func (d *fixture) text(words ...string) string {
	d.t.Helper()
	text, err := d.do(words...).ToString()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(d.t, err, words)
	return text
}

func (d *fixture) count(words ...string) int64 {
	d.t.Helper()
	n, err := d.do(words...).ToInt64()
	require.NoError(d.t, err, words)
	return n
}

func (d *fixture) run(task string, config ...runtime.KeeperConfig) admin.KeeperTaskReport {
	d.t.Helper()
	report, err := d.Bench.RunKeeperTask(d.ctx, task, config...)
	require.NoError(d.t, err)
	require.Zero(d.t, report.Remaining)
	return report
}

// keysLike are the keys of the engine that contain a text.
func (d *fixture) keysLike(part string) []string {
	d.t.Helper()
	var found []string
	for _, node := range d.core.Client().Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(d.ctx, node.B().Scan().Cursor(cursor).Match(d.Prefix+":*").Count(1000).Build()).AsScanEntry()
			require.NoError(d.t, err)
			for _, key := range page.Elements {
				if strings.Contains(key, part) {
					found = append(found, key)
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return found
}
