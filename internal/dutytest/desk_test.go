package dutytest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// desk is what another program of the contract has: its calls, and a worker that makes them one by one.
type desk struct {
	*admin.Client
	*enginetest.Bench
	t    *testing.T
	ctx  context.Context
	core *enginecore.Engine
	keys enginecore.Keys
}

func newDesk(t *testing.T, b *enginetest.Bench) *desk {
	core := b.Engine.Core()
	return &desk{admin.New(core), b, t, enginetest.Context(t), core, core.Keys()}
}

const worker, lane = "worker-1", "default"

func (d *desk) create(n admin.NewExecution) enginecore.ExecutionID {
	d.t.Helper()
	n.Kind = "work"
	id, _, err := d.CreateExecution(d.ctx, n)
	require.NoError(d.t, err)
	return id
}

// claimed is an execution that the test works on.
type claimed struct {
	id    enginecore.ExecutionID
	reply enginecore.ClaimExecutionReply
}

func (d *desk) claim(id enginecore.ExecutionID, index int) claimed {
	d.t.Helper()
	_, err := d.core.IssueClaimGrant(d.ctx, enginecore.IssueClaimGrantCall{Grant: enginecore.Grant{
		ExecutionID: id, WorkerID: "w", WorkerInstanceID: worker, LaneID: lane, GrantTTL: time.Minute,
	}})
	require.NoError(d.t, err)
	reply, err := d.core.ClaimExecution(d.ctx, enginecore.ClaimExecutionCall{
		AttemptIndex: enginecore.AttemptIndex(index), ExecutionID: id, WorkerID: "w", WorkerInstanceID: worker, LaneID: lane,
		LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: time.Hour, RenewBefore: time.Minute,
		AttemptID: enginecore.AttemptID(uuid.NewString()), AttemptPolicyJSON: []byte(`{"of":"the test"}`),
	})
	require.NoError(d.t, err)
	return claimed{id, reply}
}

func (d *desk) complete(x claimed) {
	d.t.Helper()
	_, err := d.core.CompleteExecution(d.ctx, enginecore.CompleteExecutionCall{
		AttemptIndex: x.reply.AttemptIndex, WorkerInstanceID: worker, LaneID: lane, ExecutionID: x.id, LeaseID: x.reply.LeaseID,
		LeaseEpoch: x.reply.LeaseEpoch, AttemptID: x.reply.AttemptID, ResultPayload: []byte("done"),
	})
	require.NoError(d.t, err)
}

func (d *desk) append(x claimed, text string) {
	d.t.Helper()
	_, err := d.core.AppendFrame(d.ctx, enginecore.AppendFrameCall{
		ExecutionID: x.id, AttemptIndex: x.reply.AttemptIndex, LeaseID: x.reply.LeaseID, LeaseEpoch: x.reply.LeaseEpoch,
		FrameType: "line", Payload: []byte(text), AttemptID: x.reply.AttemptID, Source: "worker", Encoding: "utf8",
		RetentionMaxlen: 100, MaxPayloadBytes: 1000, Ts: "1",
	})
	require.NoError(d.t, err)
}

// suspend lets an execution wait for a signal, until a time or, if that is zero, for ever.
func (d *desk) suspend(x claimed, timeout time.Time) enginecore.SuspendExecutionReply {
	d.t.Helper()
	reply, err := d.core.SuspendExecution(d.ctx, enginecore.SuspendExecutionCall{
		ExecutionID: x.id, WorkerInstanceID: worker, LaneID: lane, AttemptIndex: x.reply.AttemptIndex, AttemptID: x.reply.AttemptID,
		LeaseID: x.reply.LeaseID, LeaseEpoch: x.reply.LeaseEpoch, SuspensionID: enginecore.SuspensionID(uuid.NewString()),
		WaitpointID: enginecore.WaitpointID(uuid.NewString()), WaitpointKey: "approval", ReasonCode: "waiting_for_approval",
		RequestedBy: "worker", TimeoutAt: timeout, TimeoutBehavior: "fail", ResumePolicyJSON: []byte("{}"),
		ResumeConditionJSON: []byte(`{"condition_type":"signal_set","required_signal_names":["yes"],"signal_match_mode":"any","minimum_signal_count":1,"timeout_behavior":"fail"}`),
	})
	require.NoError(d.t, err)
	return reply
}

// do sends a command to where a key of it is.
func (d *desk) do(words ...string) rueidis.RedisResult {
	d.t.Helper()
	client := d.core.Client()
	result := client.Do(d.ctx, client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		require.NoError(d.t, err, words)
	}
	return result
}

func (d *desk) text(words ...string) string {
	d.t.Helper()
	text, err := d.do(words...).ToString()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(d.t, err, words)
	return text
}

func (d *desk) count(words ...string) int64 {
	d.t.Helper()
	n, err := d.do(words...).ToInt64()
	require.NoError(d.t, err, words)
	return n
}

func (d *desk) run(duty runtime.Duty, opts ...runtime.KeeperOption) runtime.DutyReport {
	d.t.Helper()
	report, err := d.Bench.Client.RunDuty(d.ctx, duty, opts...)
	require.NoError(d.t, err)
	require.Zero(d.t, report.Remaining)
	return report
}

// keysLike are the keys of the engine that contain a text.
func (d *desk) keysLike(part string) []string {
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
