package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func TestContractFlows(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		flow := uuid.NewString()
		p.vars["f"], p.vars["edge"] = flow, uuid.NewString()
		at, err := p.core.FlowPartition(enginecore.FlowID(flow))
		require.NoError(p.t, err)
		p.execution("up", at.Index)
		p.execution("down", at.Index)
		p.execution("far", (at.Index+1)%uint16(p.core.Partitioning().Flow))
		const newFlow = `{"flow_id":"$f$","flow_kind":"dag","namespace":"ns","now":$now$}`
		p.want("POST", "/v1/flows", newFlow, 201, `{"Created":{"flow_id":"$f$"}}`)
		p.want("POST", "/v1/flows", newFlow, 200, `{"AlreadySatisfied":{"flow_id":"$f$"}}`)
		for _, name := range []string{"up", "down"} {
			p.want("POST", "/v1/executions", strings.Replace(newExecution, "$e$", "$"+name+"$", 1), 201, `{"Created":"?"}`)
		}
		const member = `{"flow_id":"$f$","execution_id":"$up$","now":$now$}`
		p.want("POST", "/v1/flows/$f$/members", member, 201, `{"Added":{"execution_id":"$up$","new_node_count":1}}`)
		p.want("POST", "/v1/flows/$f$/members", member, 200, `{"AlreadyMember":{"execution_id":"$up$","node_count":1}}`)
		p.want("POST", "/v1/flows/$f$/members", strings.Replace(member, "$up$", "$far$", 1), 500, `{"error":"?","retryable":false}`)
		p.want("POST", "/v1/flows/$uuid$/members", member, 400, `{"error":"path flow_id does not match body flow_id"}`)
		p.want("POST", "/v1/flows/$f$/members", strings.Replace(member, "$up$", "$down$", 1), 201, `{"Added":{"execution_id":"$down$","new_node_count":2}}`)
		const edge = `{"flow_id":"$f$","edge_id":"$edge$","upstream_execution_id":"$up$","downstream_execution_id":"$down$",
			"dependency_kind":"success_only","data_passing_ref":null,"expected_graph_revision":2,"now":$now$}`
		p.want("POST", "/v1/flows/$f$/edges", strings.Replace(edge, `revision":2`, `revision":1`, 1), 400,
			`{"error":"ff_stage_dependency_edge failed: stale_graph_revision"}`)
		p.want("POST", "/v1/flows/$f$/edges", edge, 201, `{"Staged":{"edge_id":"$edge$","new_graph_revision":3}}`)
		apply := strings.Replace(edge, `"expected_graph_revision":2`, `"graph_revision":3`, 1)
		p.want("POST", "/v1/flows/$f$/edges/apply", apply, 200, `{"Applied":{"unsatisfied_count":1}}`)
		p.want("POST", "/v1/flows/$f$/edges/apply", apply, 200, `"AlreadyApplied"`)
		p.want("GET", "/v1/executions/$down$/state", "", 200, `"waiting_children"`)

		const cancel = `{"flow_id":"$f$","reason":"enough","cancellation_policy":"cancel_all","now":$now$}`
		p.want("POST", "/v1/flows/$uuid$/cancel", strings.Replace(cancel, "$f$", "$uuid$", 1), 400,
			`{"error":"ff_cancel_flow failed: flow_not_found"}`)
		p.want("POST", "/v1/flows/$f$/cancel?wait=true", cancel, 200,
			`{"Cancelled":{"cancellation_policy":"cancel_all","member_execution_ids":["?","?"]}}`)
		p.want("GET", "/v1/executions/$up$/state", "", 200, `"cancelled"`)
		p.want("POST", "/v1/flows/$f$/cancel", cancel, 200,
			`{"Cancelled":{"cancellation_policy":"cancel_all","member_execution_ids":["?","?"]}}`)
		p.want("POST", "/v1/flows/$f$/members", member, 400, `{"error":"?"}`)

		p.vars["g"] = uuid.NewString()
		at, err = p.core.FlowPartition(enginecore.FlowID(p.vars["g"]))
		require.NoError(p.t, err)
		p.execution("one", at.Index)
		p.want("POST", "/v1/flows", strings.Replace(newFlow, "$f$", "$g$", 1), 201, `{"Created":"?"}`)
		p.want("POST", "/v1/executions", strings.Replace(newExecution, "$e$", "$one$", 1), 201, `{"Created":"?"}`)
		p.want("POST", "/v1/flows/$g$/members", `{"flow_id":"$g$","execution_id":"$one$","now":1}`, 201, `{"Added":"?"}`)
		p.want("POST", "/v1/flows/$g$/cancel", strings.Replace(cancel, "$f$", "$g$", 1), 200,
			`{"CancellationScheduled":{"cancellation_policy":"cancel_all","member_count":1,"member_execution_ids":["$one$"]}}`)
		enginetest.Eventually(p.t, func() string {
			state := p.state("$one$")
			if state != `"cancelled"` {
				return state
			}
			return ""
		})
	})
}

func (p *contractPlace) state(id string) string {
	_, text := fetch(p.t.Context(), p.url+p.fill("/v1/executions/"+id+"/state"))
	return strings.TrimSpace(text)
}

func TestContractPolicies(t *testing.T) {
	onContract(t, func(p *contractPlace) {
		p.vars["b"], p.vars["q"] = uuid.NewString(), uuid.NewString()
		const budget = `{"budget_id":"$b$","scope_type":"flow","scope_id":"x","enforcement_mode":"strict","on_hard_limit":"fail",
			"on_soft_limit":"warn","reset_interval_ms":0,"dimensions":["tokens","cents"],"hard_limits":[100,0],"soft_limits":[50,0],"now":$now$}`
		p.want("GET", "/v1/budgets/$b$", "", 404, `{"error":"?"}`)
		p.want("GET", "/v1/budgets/x", "", 400, `{"error":"?"}`)
		p.want("POST", "/v1/budgets", strings.Replace(budget, `[100,0]`, `[100]`, 1), 400,
			`{"error":"dimension_limit_array_mismatch: dimensions=2, hard_limits=1, soft_limits=2"}`)
		p.want("POST", "/v1/budgets", budget, 201, `{"Created":{"budget_id":"$b$"}}`)
		p.want("POST", "/v1/budgets", budget, 200, `{"AlreadySatisfied":{"budget_id":"$b$"}}`)
		const usage = "/v1/budgets/$b$/usage"
		p.want("POST", usage, `{"dimensions":{"tokens":40},"now":$now$,"dedup_key":"k"}`, 200, `"Ok"`)
		p.want("POST", usage, `{"dimensions":{"tokens":40},"now":$now$,"dedup_key":"k"}`, 200, `"AlreadyApplied"`)
		p.want("POST", usage, `{"dimensions":{"tokens":20},"now":$now$}`, 200,
			`{"SoftBreach":{"dimension":"tokens","current_usage":60,"soft_limit":50}}`)
		p.want("POST", usage, `{"dimensions":{"tokens":50},"now":$now$}`, 200,
			`{"HardBreach":{"dimension":"tokens","current_usage":60,"hard_limit":100}}`)
		p.want("GET", "/v1/budgets/$b$", "", 200, `{"budget_id":"$b$","scope_type":"flow","scope_id":"x","enforcement_mode":"strict",
			"usage":{"tokens":60},"hard_limits":{"tokens":100,"cents":0},"soft_limits":{"tokens":50,"cents":0},"breach_count":1,
			"soft_breach_count":1,"last_breach_at":"?","last_breach_dim":"tokens","next_reset_at":null,"created_at":"?"}`)
		p.want("POST", "/v1/budgets/$b$/reset", "", 200, `{"Reset":{"next_reset_at":0}}`)
		p.want("POST", "/v1/budgets/$uuid$/reset", "", 400, `{"error":"ff_reset_budget failed: budget_not_found"}`)

		// A number that the engine cannot count exactly is refused, and nothing has changed.
		for _, amount := range []string{"18446744073709551566", "9223372036854775808", "9007199254740992"} {
			status, text := p.send("POST", usage, `{"dimensions":{"tokens":`+amount+`},"now":$now$}`)
			require.Equal(p.t, 400, status)
			require.Contains(p.t, text, `dimensions[\"tokens\"]: must be at most 9007199254740991, got: `+amount)
		}
		p.want("POST", usage, `{"dimensions":{"tokens":-1},"now":$now$}`, 422, `{"error":"?"}`)
		p.want("POST", usage, `{"dimensions":{"tokens":18446744073709551616},"now":$now$}`, 422, `{"error":"?"}`)
		for from, to := range map[string]string{
			`[100,0]`: `[18446744073709551615,0]`, `[50,0]`: `[9223372036854775808,0]`, `"reset_interval_ms":0`: `"reset_interval_ms":9223372036854775`,
		} {
			p.want("POST", "/v1/budgets", strings.Replace(strings.Replace(budget, "$b$", "$uuid$", 1), from, to, 1), 400, `{"error":"?"}`)
		}
		p.want("GET", "/v1/budgets/$uuid$", "", 404, `{"error":"?"}`)

		const quota = `{"quota_policy_id":"$q$","window_seconds":60,"max_requests_per_window":10,"max_concurrent":2,"now":$now$}`
		p.want("POST", "/v1/quotas", quota, 201, `{"Created":{"quota_policy_id":"$q$"}}`)
		p.want("POST", "/v1/quotas", quota, 200, `{"AlreadySatisfied":{"quota_policy_id":"$q$"}}`)
		p.want("POST", "/v1/quotas", strings.Replace(quota, ":10", ":-1", 1), 422, `{"error":"invalid JSON: Unprocessable Entity"}`)

		const rotate = "/v1/admin/rotate-waitpoint-secret"
		p.want("POST", rotate, `{"new_kid":"a:b","new_secret_hex":"00"}`, 400, `{"error":"?"}`)
		p.want("POST", rotate, `{"new_kid":"k2","new_secret_hex":"0"}`, 400, `{"error":"?"}`)
		reply := p.want("POST", rotate, `{"new_kid":"k2","new_secret_hex":"00112233445566778899aabbccddeeff"}`, 200,
			`{"rotated":`+fmt.Sprint(p.core.Partitioning().Flow)+`,"failed":[],"new_kid":"k2"}`)
		require.NotEmpty(p.t, reply.Header.Get("X-Request-Id"))
		p.want("POST", rotate, `{"new_kid":"k2","new_secret_hex":"ff"}`, 400, `{"error":"?"}`)
	})
}
