package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/internal/contract"
)

// contractPlace calls the routes under /v1 of a server with raw HTTP. vars are the values of $names in paths, bodies
// and wanted replies.
type contractPlace struct {
	t    *testing.T
	b    *enginetest.Bench
	core *enginerpc.Conn
	url  string
	vars map[string]string
}

func onContract(t *testing.T, test func(p *contractPlace)) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		test(newContractPlace(t, b, server.ContractConfig{}))
	})
}

func newContractPlace(t *testing.T, b *enginetest.Bench, config server.ContractConfig) *contractPlace {
	s, err := server.New(server.Config{Engine: b.Engine, Logger: b.Logger(), Contract: config})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	listener := httptest.NewServer(s.Handler())
	t.Cleanup(listener.Close)
	p := &contractPlace{t: t, b: b, core: engine.ConnOf(b.Engine.Internal()), url: listener.URL, vars: map[string]string{}}
	p.vars["uuid"] = uuid.NewString()
	p.vars["now"] = fmt.Sprint(time.Now().UnixMilli())
	return p
}

// execution gives a name to a new id in a partition.
func (p *contractPlace) execution(name string, partition uint16) enginecore.ExecutionID {
	id := keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily, Index: partition})
	p.vars[name] = string(id)
	return id
}

func (p *contractPlace) fill(text string) string {
	for name, value := range p.vars {
		text = strings.ReplaceAll(text, "$"+name+"$", value)
	}
	return text
}

// send sends a request, and returns its status and body.
func (p *contractPlace) send(method, path, body string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+p.fill(path), strings.NewReader(p.fill(body)))
	require.NoError(p.t, err)
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(p.t, err)
	return reply.StatusCode, string(text)
}

// want sends a request and compares status and body. In the wanted body, "?" is any value and "=name" gives the value
// of a text a name; the empty text is an empty body.
func (p *contractPlace) want(method, path, body string, status int, want string, header ...string) *http.Response {
	p.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(p.fill(body))
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+p.fill(path), reader)
	require.NoError(p.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, status, reply.StatusCode, "%s %s: %s", method, p.fill(path), text)
	if want == "" {
		require.Empty(p.t, string(text))
		return reply
	}
	require.Equal(p.t, "application/json", reply.Header.Get("Content-Type"))
	var wanted, got any
	require.NoError(p.t, json.Unmarshal([]byte(p.fill(want)), &wanted), want)
	require.NoError(p.t, json.Unmarshal(text, &got), "%s", text)
	require.Equal(p.t, wanted, p.match(wanted, got), "%s %s: %s", method, p.fill(path), text)
	return reply
}

// match returns got, with the wanted value in each place at which the wanted value matches anything.
func (p *contractPlace) match(wanted, got any) any {
	switch w := wanted.(type) {
	case string:
		name, named := strings.CutPrefix(w, "=")
		text, isText := got.(string)
		switch {
		case w == "?" && got != nil:
			return w
		case named && isText && text != "":
			p.vars[name] = text
			return w
		}
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			for name := range g {
				if inner, there := w[name]; there {
					g[name] = p.match(inner, g[name])
				}
			}
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for i := range g {
				g[i] = p.match(w[i], g[i])
			}
		}
	}
	return got
}

const newExecution = `{"execution_id":"$e$","namespace":"ns","lane_id":"main","execution_kind":"work",` +
	`"input_payload":[34,104,105,34],"payload_encoding":"json","priority":7,"creator_identity":"me","tags":{"team.a":"x"},` +
	`"policy":{},"partition_id":3,"now":$now$}`

func TestContractExecutions(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		p.execution("e", 3)
		p.want("GET", "/v1/executions/$e$", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/executions/$e$/state", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/executions/$e$/result", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/executions/nonsense", "", 400, `{"error":"?"}`)
		p.want("POST", "/v1/executions", newExecution, 201,
			`{"Created":{"execution_id":"$e$","public_state":"waiting"}}`)
		p.want("POST", "/v1/executions", newExecution, 200, `{"Duplicate":{"execution_id":"$e$"}}`)
		p.want("GET", "/v1/executions/$e$/state", "", 200, `"waiting"`)
		p.want("GET", "/v1/executions/$e$", "", 200, `{"execution_id":"$e$","namespace":"ns","lane_id":"main","priority":7,
			"execution_kind":"work","public_state":"waiting","created_at":"?","current_attempt_index":0,"flow_id":null,
			"blocking_detail":"","state_vector":{"lifecycle_phase":"runnable","ownership_state":"unowned",
			"eligibility_state":"eligible_now","blocking_reason":"waiting_for_worker","terminal_outcome":"none",
			"attempt_state":"pending_first_attempt","public_state":"waiting"}}`)
		p.want("PUT", "/v1/executions/$e$/priority", `{"new_priority":9}`, 200, `{"Changed":{"execution_id":"$e$"}}`)
		p.want("POST", "/v1/executions/$e$/revoke-lease", "", 404, `{"error":"?"}`)
		p.want("POST", "/v1/executions/$e$/replay", "", 400,
			`{"error":"ff_replay_execution failed: execution_not_terminal"}`)
		const cancel = `{"execution_id":"$e$","reason":"no longer needed","source":"operator_override","now":$now$}`
		p.want("POST", "/v1/executions/$e$/cancel", `{"execution_id":"{fp:1}:$uuid$","reason":"x"}`, 400,
			`{"error":"path execution_id does not match body execution_id"}`)
		p.want("POST", "/v1/executions/$e$/cancel", cancel, 200,
			`{"Cancelled":{"execution_id":"$e$","public_state":"cancelled"}}`)
		p.want("POST", "/v1/executions/$e$/cancel", cancel, 400,
			`{"error":"ff_cancel_execution failed: execution_not_active"}`)
		p.want("PUT", "/v1/executions/$e$/priority", `{"new_priority":9}`, 400,
			`{"error":"ff_change_priority failed: execution_not_eligible"}`)
		p.want("POST", "/v1/executions/$e$/replay", "", 200, `{"Replayed":{"public_state":"waiting"}}`)

		// A creation with a known idempotency key answers the execution that exists.
		keyed := strings.Replace(newExecution, `"namespace"`, `"idempotency_key":"once","namespace"`, 1)
		p.execution("first", 3)
		p.execution("second", 3)
		p.want("POST", "/v1/executions", strings.Replace(keyed, "$e$", "$first$", 1), 201, `{"Created":"?"}`)
		p.want("POST", "/v1/executions", strings.Replace(keyed, "$e$", "$second$", 1), 200, `{"Duplicate":{"execution_id":"$first$"}}`)
		p.want("GET", "/v1/executions/$second$/state", "", 404, `{"error":"?"}`)
		p.execution("later", 3)
		p.vars["hour"] = fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
		p.want("POST", "/v1/executions", strings.Replace(strings.Replace(newExecution, "$e$", "$later$", 1), `"namespace"`,
			`"delay_until":$hour$,"namespace"`, 1), 201, `{"Created":{"execution_id":"$later$","public_state":"delayed"}}`)
		p.want("GET", "/v1/executions/$later$/state", "", 200, `"delayed"`)
		p.want("POST", "/v1/executions/$e$/cancel", cancel, 200, `{"Cancelled":"?"}`)

		p.execution("gone", 3)
		p.want("POST", "/v1/executions/$gone$/cancel", `{"execution_id":"$gone$","reason":"x","now":1}`, 400,
			`{"error":"ff_cancel_execution failed: execution_not_found"}`)
		p.want("POST", "/v1/executions/$gone$/replay", "", 400,
			`{"error":"ff_replay_execution failed: execution_not_found"}`)
		p.want("POST", "/v1/executions/$gone$/revoke-lease", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/executions/$gone$/pending-waitpoints", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/executions/$gone$/waitpoints/$uuid$/token", "", 404, `{"error":"?"}`)
	})
}

// No route takes an execution of a partition that the deployment does not have: no worker and no keeper would look
// there.
func TestContractPartitions(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		flow := uuid.NewString()
		at, err := p.core.FlowPartition(enginecore.FlowID(flow))
		require.NoError(p.t, err)
		p.vars["f"] = flow
		p.execution("here", at.Index)
		p.execution("e", uint16(p.core.Partitioning().Flow))
		for _, r := range contract.Routes() {
			path := strings.NewReplacer("/executions/{id}", "/executions/$e$", "{id}", "$f$", "{index}", "0", "{worker}", "w",
				"{waitpoint}", "$uuid$").Replace(r.Pattern)
			body := ""
			switch r.Operation {
			case "create_execution":
				body = newExecution
			case "add_execution_to_flow":
				body = `{"flow_id":"$f$","execution_id":"$e$"}`
			case "stage_dependency_edge", "apply_dependency_to_child":
				body = `{"flow_id":"$f$","edge_id":"$uuid$","upstream_execution_id":"$here$","downstream_execution_id":"$e$",
					"dependency_kind":"success_only","expected_graph_revision":0,"graph_revision":0}`
			default:
				if !strings.Contains(path, "$e$") {
					continue
				}
			}
			status, text := p.send(r.Method, path, body)
			require.Equal(p.t, 400, status, "%s: %s", r.Operation, text)
			require.Contains(p.t, text, fmt.Sprintf("partition {fp:%d} does not exist", p.core.Partitioning().Flow), r.Operation)
		}
		_, err = p.core.CreateExecution(enginetest.Context(p.t), enginerpc.CreateExecutionCall{
			ExecutionID: enginecore.ExecutionID(p.vars["e"]), Namespace: "ns", LaneID: "main", ExecutionKind: "work",
		})
		require.ErrorContains(p.t, err, "does not exist")
	})
}

// Bodies that cannot be read have the status of their fault, and bodies that are too large name the limit.
func TestContractBodies(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		p.execution("e", 3)
		const path = "/v1/executions"
		p.want("POST", path, `{`, 400, `{"error":"invalid JSON: Bad Request"}`)
		p.want("POST", path, `[]`, 422, `{"error":"invalid JSON: Unprocessable Entity"}`)
		p.want("POST", path, `{"execution_id":"$e$"}`, 422, `{"error":"invalid JSON: Unprocessable Entity"}`)
		p.want("POST", path, newExecution, 415, `{"error":"invalid JSON: Unsupported Media Type"}`, "Content-Type", "text/plain")
		wrong := func(from, to string) {
			p.want("POST", path, strings.Replace(newExecution, from, to, 1), 422,
				`{"error":"invalid JSON: Unprocessable Entity"}`)
		}
		wrong(`"lane_id":"main"`, `"lane_id":"lane\u00e9"`)
		wrong(`"execution_id":"$e$"`, `"execution_id":"e"`)
		wrong(`[34,104,105,34]`, `[256]`)
		wrong(`[34,104,105,34]`, `"text"`)
		wrong(`"priority":7`, `"priority":"high"`)
		p.want("POST", path, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`, 413,
			`{"error":"payload_too_large","limit_bytes":1048576,"route":"/v1/executions"}`)
		p.want("POST", "/v1/executions/$e$/signal", `{"x":"`+strings.Repeat("x", 256<<10)+`"}`, 413,
			`{"error":"payload_too_large","limit_bytes":262144,"route":"/v1/executions/{id}/signal"}`)
		p.want("POST", "/v1/flows", `{"x":"`+strings.Repeat("x", 64<<10)+`"}`, 413,
			`{"error":"payload_too_large","limit_bytes":65536,"route":"/v1/flows"}`)
		p.want("GET", "/v1/nothing", "", 404, `{"error":"not found: /v1/nothing"}`)
	})
}

func TestContractLists(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		p.execution("e", 3)
		p.want("POST", "/v1/executions", newExecution, 201, `{"Created":"?"}`)
		const item = `{"execution_id":"$e$","namespace":"ns","lane_id":"main","execution_kind":"work","public_state":"waiting",
			"priority":7,"created_at":"?"}`
		const list = "/v1/executions?partition=3&lane=main"
		p.want("GET", list, "", 200, `{"executions":[`+item+`],"total_returned":1}`)
		p.want("GET", list+"&offset=1", "", 200, `{"executions":[],"total_returned":0}`)
		p.want("GET", list+"&state=terminal", "", 200, `{"executions":[],"total_returned":0}`)
		p.want("GET", "/v1/executions?partition=3&cursor=", "", 200, `{"executions":["$e$"],"next_cursor":null}`)
		p.want("GET", "/v1/executions?partition=3&cursor=$e$", "", 200, `{"executions":[],"next_cursor":null}`)
		p.want("GET", "/v1/executions?partition=3&cursor=&limit=0", "", 200, `{"executions":[],"next_cursor":null}`)
		const cancel = `{"execution_id":"$e$","reason":"x","now":1}`
		p.want("POST", "/v1/executions/$e$/cancel", cancel, 200, `{"Cancelled":"?"}`)
		ended := strings.Replace(item, "waiting", "cancelled", 1)
		p.want("GET", list+"&state=terminal", "", 200, `{"executions":[`+ended+`],"total_returned":1}`)

		p.execution("later", 3)
		delayed := strings.Replace(strings.Replace(newExecution, "$e$", "$later$", 1), `"policy":{}`,
			`"policy":{},"delay_until":$now$00`, 1)
		p.want("POST", "/v1/executions", delayed, 201, `{"Created":"?"}`)
		item2 := strings.Replace(strings.Replace(item, "$e$", "$later$", 1), "waiting", "delayed", 1)
		p.want("GET", list+"&state=delayed", "", 200, `{"executions":[`+item2+`],"total_returned":1}`)
		for _, query := range []string{
			"", "?partition=x", "?partition=70000", "?partition=1&state=odd", "?partition=1&limit=-1", "?partition=1&lan=x",
			"?partition=1&lane=a%01b",
		} {
			p.want("GET", "/v1/executions"+query, "", 400, `{"error":"?"}`)
		}
	})
}

// A worker of another program claims by a grant, streams, waits for a signal, and completes.
func TestContractWorkerCompletesExecution(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		ctx := enginetest.Context(p.t)
		id := p.execution("e", 3)
		p.want("POST", "/v1/executions", newExecution, 201, `{"Created":"?"}`)
		const request = `{"lane_id":"main","worker_instance_id":"w-1","capabilities":[],"grant_ttl_ms":20000}`
		for from, to := range map[string]string{
			`"w-1"`: `"w 1"`, `[]`: `["a,b"]`, `20000`: `60001`,
		} {
			p.want("POST", "/v1/workers/w/claim", strings.Replace(request, from, to, 1), 400, `{"error":"?"}`)
		}
		p.want("POST", "/v1/workers/w/claim", strings.Replace(request, "main", "empty", 1), 204, "")
		p.want("POST", "/v1/workers/w/claim", request, 200,
			`{"execution_id":"$e$","partition_key":"{fp:3}","grant_key":"=grant","expires_at_ms":"?"}`)
		p.want("POST", "/v1/workers/w/claim", request, 204, "")
		lease, err := p.core.ClaimExecution(ctx, enginerpc.ClaimExecutionCall{
			ExecutionID: id, WorkerID: "w", WorkerInstanceID: "w-1", LaneID: "main", LeaseTTL: time.Minute,
			LeaseID: enginecore.LeaseID(uuid.NewString()), AttemptID: keyspace.AttemptID(uuid.NewString()),
			RenewBefore: 30 * time.Second,
		})
		require.NoError(p.t, err)
		require.Equal(p.t, p.vars["grant"], p.core.Keys().ExecClaimGrant(id))

		const stream = "/v1/executions/$e$/attempts/0/stream"
		p.want("GET", stream, "", 200, `{"frames":[],"count":0}`)
		_, err = p.core.AppendFrame(ctx, enginerpc.AppendFrameCall{
			ExecutionID: id, AttemptIndex: lease.AttemptIndex, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
			FrameType: "line", Payload: []byte("hello"), Encoding: "utf8", Source: "worker",
		})
		require.NoError(p.t, err)
		p.want("GET", stream, "", 200, `{"frames":[{"id":"=frame","fields":"?"}],"count":1}`)
		p.want("GET", stream+"?from=start&to=end&limit=1000", "", 200, `{"frames":"?","count":1}`)
		p.want("GET", stream+"/tail?after=0-0&block_ms=30000", "", 200, `{"frames":[{"id":"$frame$","fields":"?"}],"count":1}`)
		p.want("GET", stream+"/tail?after=$frame$&block_ms=10", "", 200, `{"frames":[],"count":0}`)
		for _, query := range []string{
			"?limit=0", "?limit=1001", "?from=-", "?to=%2B", "?from=", "/tail?after=start", "/tail?after=5",
			"/tail?block_ms=30001", "/tail?limit=0",
		} {
			p.want("GET", stream+query, "", 400, `{"error":"?"}`)
		}
		p.want("GET", "/v1/executions/$e$/attempts/x/stream", "", 400, `{"error":"?"}`)

		waitpoint := enginecore.WaitpointID(uuid.NewString())
		p.vars["w"] = string(waitpoint)
		suspended, err := p.core.SuspendExecution(ctx, enginerpc.SuspendExecutionCall{
			ExecutionID: id, LaneID: "main", WorkerInstanceID: "w-1", AttemptIndex: lease.AttemptIndex,
			AttemptID: lease.AttemptID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
			SuspensionID: keyspace.SuspensionID(uuid.NewString()), WaitpointID: waitpoint, WaitpointKey: "wpk:" + string(waitpoint),
			ReasonCode: "waiting_for_signal", RequestedBy: "worker", ResumePolicyJSON: []byte(`{}`),
			ResumeConditionJSON: []byte(`{"condition_type":"signal_set","required_signal_names":["go"],"signal_match_mode":"any",` +
				`"minimum_signal_count":1,"timeout_behavior":"fail","allow_operator_override":true}`),
		})
		require.NoError(p.t, err)
		p.vars["token"] = string(suspended.WaitpointToken)
		p.want("GET", "/v1/executions/$e$/pending-waitpoints", "", 200, `[{"waitpoint_id":"$w$","waitpoint_key":"wpk:$w$",
			"state":"active","waitpoint_token":"$token$","required_signal_names":["go"],"created_at":"?","activated_at":"?"}]`)
		p.want("GET", "/v1/executions/$e$/waitpoints/$w$/token", "", 200, `{"waitpoint_id":"$w$","waitpoint_token":"$token$"}`)
		p.want("GET", "/v1/executions/$e$/waitpoints/$uuid$/token", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/executions/$e$/waitpoints/x/token", "", 400, `{"error":"?"}`)
		p.vars["s"] = uuid.NewString()
		const signal = `{"execution_id":"$e$","waitpoint_id":"$w$","signal_id":"$s$","signal_name":"go","signal_category":"human",
			"source_type":"api","source_identity":"ann","payload":[49],"payload_encoding":"json","idempotency_key":"k1",
			"target_scope":"waitpoint","waitpoint_token":"$token$","now":$now$}`
		p.want("POST", "/v1/executions/$e$/signal", strings.Replace(signal, `"$token$"`, `"k1:00"`, 1), 400,
			`{"error":"ff_deliver_signal failed: invalid_token"}`)
		p.want("POST", "/v1/executions/$e$/signal", signal, 200,
			`{"Accepted":{"signal_id":"$s$","effect":"resume_condition_satisfied"}}`)
		p.want("POST", "/v1/executions/$e$/signal", signal, 200, `{"Duplicate":{"existing_signal_id":"$s$"}}`)
		p.want("GET", "/v1/executions/$e$/pending-waitpoints", "", 200, `[]`)

		p.want("POST", "/v1/workers/w/claim", request, 200, `{"execution_id":"$e$","partition_key":"{fp:3}","grant_key":"$grant$","expires_at_ms":"?"}`)
		resumed, err := p.core.ClaimResumedExecution(ctx, enginerpc.ClaimResumedExecutionCall{
			ExecutionID: id, WorkerID: "w", WorkerInstanceID: "w-1", LaneID: "main", LeaseTTL: time.Minute,
			LeaseID: enginecore.LeaseID(uuid.NewString()),
		})
		require.NoError(p.t, err)
		p.want("POST", "/v1/executions/$e$/reclaim", `{"worker_id":"w","worker_instance_id":"w-2","lane_id":"main","grant_ttl_ms":5000}`,
			400, `{"error":"ff_issue_reclaim_grant failed: execution_not_reclaimable"}`)
		p.want("POST", "/v1/executions/$e$/revoke-lease", "", 200, `{"Revoked":{"lease_id":"`+string(resumed.LeaseID)+`","lease_epoch":2}}`)
		p.want("POST", "/v1/executions/$e$/revoke-lease", "", 200, `{"AlreadySatisfied":{"reason":"already_revoked"}}`)
		p.want("POST", "/v1/executions/$e$/reclaim", `{"worker_id":"w","worker_instance_id":"w-2","lane_id":"main","grant_ttl_ms":0}`,
			400, `{"error":"?"}`)
		p.want("POST", "/v1/executions/$e$/reclaim", `{"worker_id":"w","worker_instance_id":"w-2","lane_id":"main","grant_ttl_ms":5000}`,
			200, `{"execution_id":"$e$","partition_key":"{fp:3}","grant_key":"$grant$","expires_at_ms":"?","lane_id":"main"}`)
		reclaimed, err := p.core.ReclaimExecution(ctx, enginerpc.ReclaimExecutionCall{
			ExecutionID: id, WorkerID: "w", WorkerInstanceID: "w-2", LaneID: "main", LeaseTTL: time.Minute,
			OldAttemptIndex: 0, AttemptIndex: 1,
			LeaseID: enginecore.LeaseID(uuid.NewString()), AttemptID: keyspace.AttemptID(uuid.NewString()),
		})
		require.NoError(p.t, err)
		_, err = p.core.CompleteExecution(ctx, enginerpc.CompleteExecutionCall{
			LaneID: "main", WorkerInstanceID: "w-2", AttemptIndex: reclaimed.AttemptIndex, ExecutionID: id,
			LeaseID: reclaimed.LeaseID, LeaseEpoch: reclaimed.LeaseEpoch, AttemptID: reclaimed.AttemptID, ResultPayload: []byte("done"),
		})
		require.NoError(p.t, err)
		p.want("GET", "/v1/executions/$e$/state", "", 200, `"completed"`)
		p.want("GET", stream, "", 200, `{"frames":"?","count":1,"closed_at":"?","closed_reason":"?"}`)
		reply, err := http.Get(p.url + p.fill("/v1/executions/$e$/result"))
		require.NoError(p.t, err)
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		require.NoError(p.t, err)
		require.Equal(p.t, "application/octet-stream", reply.Header.Get("Content-Type"))
		require.Equal(p.t, "done", string(text))
	})
}

// One more stream operation than the pool has permits is refused.
func TestContractStreamPool(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := newContractPlace(t, b, server.ContractConfig{StreamOps: 1})
		p.execution("e", 3)
		stream := p.url + p.fill("/v1/executions/$e$/attempts/0/stream")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil { // again if a read has the permit
				_, _ = fetch(ctx, stream+"/tail?block_ms=30000")
			}
		}()
		enginetest.Eventually(t, func() string {
			status, text := fetch(t.Context(), stream)
			if status != http.StatusTooManyRequests {
				return "the tail has not begun"
			}
			require.JSONEq(t, `{"error":"concurrency limit exceeded: stream_ops (max 1)","retryable":true}`, text)
			return ""
		})
		cancel()
		<-ended
	})
}

// fetch returns the status and the body of a page; 0 and the error if the request fails.
func fetch(ctx context.Context, address string) (status int, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err.Error()
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err.Error()
	}
	return reply.StatusCode, string(text)
}

func TestEnvironmentOfOtherServers(t *testing.T) {
	t.Parallel()
	read := func(variables map[string]string) (server.Environment, error) {
		return server.ReadEnvironment(func(name string) (string, bool) {
			value, set := variables[name]
			return value, set
		})
	}
	e, err := read(nil)
	require.NoError(t, err)
	require.Equal(t, server.Environment{}, e)
	e, err = read(map[string]string{
		"FF_HOST": "db", "FF_TLS": "1", "FF_CLUSTER": "true", "FF_LISTEN_ADDR": "0.0.0.0:9090", "FF_FLOW_PARTITIONS": "256",
		"FF_API_TOKEN": "t", "FF_CORS_ORIGINS": "https://a.example.com, nonsense", "FF_MAX_CONCURRENT_TAIL": "7",
		"FF_WAITPOINT_HMAC_GRACE_MS": "1500", "FF_WAITPOINT_HMAC_SECRET": "00ff",
	})
	require.NoError(t, err)
	require.Equal(t, server.Environment{
		URL: "valkeys+cluster://db:6379", Address: "0.0.0.0:9090", Partitions: 256, AdminToken: "t",
		Secret: enginecore.WaitpointSecret{KID: "k1", Hex: "00ff"},
		Contract: server.ContractConfig{
			Origins: []string{"https://a.example.com"}, StreamOps: 7, SecretGrace: 1500 * time.Millisecond,
		},
	}, e)
	for name, value := range map[string]string{
		"FF_PORT": "0", "FF_FLOW_PARTITIONS": "x", "FF_CORS_ORIGINS": "", "FF_MAX_CONCURRENT_STREAM_OPS": "0",
		"FF_WAITPOINT_HMAC_SECRET": "abc", "FF_WAITPOINT_HMAC_GRACE_MS": "-1",
	} {
		_, err := read(map[string]string{name: value})
		require.ErrorIs(t, err, server.ErrInvalid, name)
		require.ErrorContains(t, err, name)
	}
	e, err = read(map[string]string{"FF_CORS_ORIGINS": "a,*"})
	require.NoError(t, err)
	require.Equal(t, []string{"*"}, e.Contract.Origins)
}

// No value of a field makes a route fail with a server error.
func TestContractRefusesInvalidRequests(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		flow := uuid.NewString()
		at, err := p.core.FlowPartition(enginecore.FlowID(flow))
		require.NoError(p.t, err)
		p.vars["f"], p.vars["x"] = flow, uuid.NewString()
		p.execution("e", at.Index)
		bodies := map[string]string{
			"POST /v1/executions": newExecution,
			"POST /v1/executions/$e$/cancel": `{"execution_id":"$e$","reason":"x","source":"worker","lease_id":"$x$","lease_epoch":1,
				"attempt_id":"$x$","now":1}`,
			"POST /v1/executions/$e$/signal": `{"execution_id":"$e$","waitpoint_id":"$x$","signal_id":"$x$","signal_name":"go",
				"signal_category":"a","source_type":"a","source_identity":"a","payload":[1],"payload_encoding":"json","correlation_id":"c",
				"idempotency_key":"k","target_scope":"waitpoint","created_at":1,"dedup_ttl_ms":1,"resume_delay_ms":0,
				"max_signals_per_execution":1,"signal_maxlen":1,"waitpoint_token":"k1:00","now":1}`,
			"PUT /v1/executions/$e$/priority": `{"new_priority":1}`,
			"POST /v1/executions/$e$/reclaim": `{"worker_id":"w","worker_instance_id":"w","lane_id":"main","worker_capabilities":["a"],
				"grant_ttl_ms":1000}`,
			"POST /v1/workers/w/claim":       `{"lane_id":"main","worker_instance_id":"w","capabilities":["a"],"grant_ttl_ms":1}`,
			"POST /v1/flows":                 `{"flow_id":"$f$","flow_kind":"dag","namespace":"ns","now":1}`,
			"POST /v1/flows/$f$/members":     `{"flow_id":"$f$","execution_id":"$e$","now":1}`,
			"POST /v1/flows/$f$/cancel":      `{"flow_id":"$f$","reason":"x","cancellation_policy":"flow_only","now":1}`,
			"POST /v1/flows/$f$/edges":       `{"flow_id":"$f$","edge_id":"$x$","upstream_execution_id":"$e$","downstream_execution_id":"$e$","dependency_kind":"success_only","data_passing_ref":"a","expected_graph_revision":1,"now":1}`,
			"POST /v1/flows/$f$/edges/apply": `{"flow_id":"$f$","edge_id":"$x$","upstream_execution_id":"$e$","downstream_execution_id":"$e$","dependency_kind":"success_only","data_passing_ref":"a","graph_revision":1,"now":1}`,
			"POST /v1/budgets": `{"budget_id":"$x$","scope_type":"a","scope_id":"a","enforcement_mode":"a","on_hard_limit":"a",
				"on_soft_limit":"a","reset_interval_ms":1,"dimensions":["a"],"hard_limits":[1],"soft_limits":[1],"now":1}`,
			"POST /v1/budgets/$x$/usage":             `{"dimensions":{"a":1},"now":1,"dedup_key":"k"}`,
			"POST /v1/quotas":                        `{"quota_policy_id":"$x$","window_seconds":1,"max_requests_per_window":1,"max_concurrent":1,"now":1}`,
			"POST /v1/admin/rotate-waitpoint-secret": `{"new_kid":"k","new_secret_hex":"00"}`,
		}
		values := []string{
			`null`, `true`, `-1`, `0`, `1.5`, `9223372036854775807`, `18446744073709551615`, `1e300`, `""`, `"\u0000"`, `"{}"`,
			`"a b\n"`, `"` + strings.Repeat("x", 4000) + `"`, `[]`, `["a","a"]`, `[1,2,3]`, `[-1]`, `{}`, `{"a":-1}`, `{"":1}`,
		}
		requests := 0
		for route, body := range bodies {
			method, path, _ := strings.Cut(route, " ")
			var fields map[string]json.RawMessage
			require.NoError(p.t, json.Unmarshal([]byte(p.fill(body)), &fields))
			for name, kept := range fields {
				for _, value := range values {
					fields[name] = json.RawMessage(value)
					text, err := json.Marshal(fields)
					require.NoError(p.t, err)
					request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+p.fill(path), strings.NewReader(string(text)))
					require.NoError(p.t, err)
					request.Header.Set("Content-Type", "application/json")
					reply, err := http.DefaultClient.Do(request)
					require.NoError(p.t, err)
					answer, err := io.ReadAll(reply.Body)
					require.NoError(p.t, err)
					require.NoError(p.t, reply.Body.Close())
					requests++
					if reply.StatusCode >= 500 {
						p.t.Errorf("%s with %s %.60s: %d %s", route, name, value, reply.StatusCode, answer)
					}
				}
				fields[name] = kept
			}
		}
		require.Greater(p.t, requests, 1000)
	})
}
