package contracttest

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// bench is an engine with a keyspace of its own.
type bench struct {
	*enginerpc.Conn
	tb     testing.TB
	client rueidis.Client
	keys   enginerpc.Keys
	prefix string

	// nodes are those that create takes, of runs; nil: it creates records as the contract does.
	nodes *nodePool
}

func newBench(t *testing.T, kind testserver.Kind) *bench {
	t.Helper()
	option := rueidis.ClientOption{DisableCache: true}
	if kind == testserver.Embedded {
		engine, err := embedded.Open(t.Context(), embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		})
		option = engine.ClientOption()
	} else if kind == testserver.OnCluster {
		for _, node := range testserver.SharedCluster(t).Nodes {
			option.InitAddress = append(option.InitAddress, node.Addr())
		}
	} else {
		option.InitAddress = []string{testserver.Shared(t, kind).Addr()}
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	prefix := "t-" + uuid.NewString()[:18]
	engine, err := enginerpc.Connect(t.Context(), client, enginerpc.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Conn: engine, tb: t, client: client, keys: engine.Keys(), prefix: prefix}
}

// each runs a test on every engine.
func each(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, kind))
		})
	}
}

// eachForm runs a test on every engine twice: on executions that the contract's calls have created, and on nodes of
// runs, which have rows.
func eachForm(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, kind := range testserver.Kinds(t) {
		for _, form := range []string{"records", "nodes"} {
			t.Run(string(kind)+" "+form, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, kind)
				if form == "nodes" {
					b.nodes = &nodePool{}
				}
				test(t, b)
			})
		}
	}
}

// raw runs a library function with texts as they are, past the typed calls.
func (b *bench) raw(ctx context.Context, function string, keys, args []string) rueidis.RedisResult {
	return b.client.Do(ctx, b.client.B().Fcall().Function(function).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// refusalOf is the code of a refusing reply, "" for any other reply, and the message of a script error.
func refusalOf(result rueidis.RedisResult) (code, scriptError string) {
	message, err := result.ToMessage()
	if err != nil {
		return "", err.Error()
	}
	if !message.IsArray() {
		return "", ""
	}
	list, err := message.ToArray()
	if err != nil || len(list) < 2 {
		return "", ""
	}
	if n, err := list[0].AsInt64(); err != nil || n != 0 || !list[0].IsInt64() {
		return "", ""
	}
	code, err = list[1].ToString()
	if err != nil {
		return "", err.Error()
	}
	return cmp.Or(code, "refused"), ""
}

// flowField is one field of the record of a flow, "" when it is missing.
func (b *bench) flowField(flow enginecore.FlowID, name string) string {
	b.tb.Helper()
	fields, err := rowread.Flow(context.Background(), b.client, b.keys, partition, flow)
	if err != nil {
		b.tb.Fatal(err)
	}
	return fields[name]
}

// field is one field of a hash, "" when it is missing.
func (b *bench) field(key, name string) string {
	b.tb.Helper()
	value, err := b.client.Do(context.Background(), b.client.B().Hget().Key(key).Field(name).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		b.tb.Fatal(err)
	}
	return value
}

// core is one field of an execution's record.
func (b *bench) core(e enginecore.ExecutionID, name string) string {
	b.tb.Helper()
	return b.record(e)[name]
}

// record returns the stored fields of an execution.
func (b *bench) record(e enginecore.ExecutionID) map[string]string {
	b.tb.Helper()
	record, err := rowread.Record(context.Background(), b.client, b.keys, e)
	if err != nil {
		b.tb.Fatal(err)
	}
	return record
}

// set writes a field of an execution's record.
func (b *bench) set(e enginecore.ExecutionID, name, value string) {
	b.tb.Helper()
	if err := rowread.Set(context.Background(), b.client, b.keys, e, name, value); err != nil {
		b.tb.Fatal(err)
	}
}

// rows is the header of a run's rows.
func (b *bench) rows(flow enginecore.FlowID) rowread.Head {
	b.tb.Helper()
	text, err := b.do("GET", b.keys.FlowNodes(partition, flow)).ToString()
	if err != nil {
		b.tb.Fatal(err)
	}
	head, _, err := rowread.Parse(text)
	if err != nil {
		b.tb.Fatal(err)
	}
	return head
}

// score is a member's score, or false when it is not in the sorted set.
func (b *bench) score(key, member string) (float64, bool) {
	b.tb.Helper()
	score, err := b.client.Do(context.Background(), b.client.B().Zscore().Key(key).Member(member).Build()).AsFloat64()
	if rueidis.IsRedisNil(err) {
		return 0, false
	}
	if err != nil {
		b.tb.Fatal(err)
	}
	return score, true
}

func (b *bench) do(words ...string) rueidis.RedisResult {
	b.tb.Helper()
	result := b.client.Do(context.Background(), b.client.B().Arbitrary(words...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		b.tb.Fatalf("%v: %v", words, err)
	}
	return result
}

func (b *bench) exists(key string) bool {
	b.tb.Helper()
	n, err := b.do("EXISTS", key).AsInt64()
	if err != nil {
		b.tb.Fatal(err)
	}
	return n == 1
}

var partition = keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}

const (
	lane     = "main"
	worker   = "worker"
	instance = "instance"
)

func newExecutionID() enginecore.ExecutionID {
	return enginecore.ExecutionID(partition.Tag() + ":" + uuid.NewString())
}

func atoi(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func must[R any](b *bench, call enginerpc.Call[R]) R {
	b.tb.Helper()
	reply, err := enginerpc.Do(context.Background(), b.Conn, call)
	if err != nil {
		b.tb.Fatalf("%s: %v", enginerpc.FunctionName(call), err)
	}
	return reply
}

// refused is the code with which a call is refused.
func refused[R any](b *bench, call enginerpc.Call[R]) string {
	b.tb.Helper()
	function, keys, args, err := enginerpc.Wire(b.keys, call)
	if err != nil {
		b.tb.Fatal(err)
	}
	code, scriptError := refusalOf(b.raw(context.Background(), function, keys, args))
	if scriptError != "" {
		return fmt.Sprintf("error: %s", scriptError)
	}
	return code
}
