package submit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// unlimitedReclaims is the limit of nodes that run no function of a user, and so cannot be the cause of a worker's
// loss.
const unlimitedReclaims = 1 << 30

// MaxReclaims returns how often an execution may be taken over, whose workers were lost, before it fails for good.
func MaxReclaims(n *flowgraph.Node) int {
	switch {
	case n.Loop == nil && n.Expand == nil && (n.Map != nil || n.Sub != nil):
		return unlimitedReclaims
	case n.LostWorkers == activityspec.NoLostWorker:
		return 0
	case n.LostWorkers == 0:
		return activityspec.DefaultLostWorkers
	}
	return n.LostWorkers
}

// StoredPolicy is the policy document of an execution, in JSON. The library reads the retry policy, the limit of
// take-overs, the routing requirements and the stream policy; the worker that runs the node reads the rest.
type StoredPolicy struct {
	Retry       *storedRetry    `json:"retry_policy,omitempty"`
	MaxReclaims int             `json:"max_reclaim_count"`
	Routing     *storedRouting  `json:"routing_requirements,omitempty"`
	Codec       string          `json:"codec,omitempty"`
	StartMS     int64           `json:"start_to_close_ms,omitempty"`
	HeartbeatMS int64           `json:"heartbeat_timeout_ms,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Stream      *storedStream   `json:"stream_policy,omitempty"`
	Child       *StoredChild    `json:"child,omitempty"`
	// Condition is set for nodes that decide which branches run.
	Cases *StoredCases `json:"cases,omitempty"`
}

// storedStream bounds the frames of each attempt, by the engine.
type storedStream struct {
	Retention int `json:"retention_maxlen"`
}

type storedRetry struct {
	MaxRetries int           `json:"max_retries"`
	Backoff    storedBackoff `json:"backoff"`
	Only       []string      `json:"only,omitempty"`
	Except     []string      `json:"except,omitempty"`
	WithinMS   int64         `json:"within_ms,omitempty"`
}

type storedBackoff struct {
	Type           string  `json:"type"`
	InitialMS      int64   `json:"initial_delay_ms"`
	MaxMS          int64   `json:"max_delay_ms"`
	Multiplier     float64 `json:"multiplier"`
	JitterPermille int     `json:"jitter_permille,omitempty"`
}

type storedRouting struct {
	Capabilities []string `json:"required_capabilities"`
}

// StoredJSONCodec is the name of the JSON codec. A policy without a codec means this one.
const StoredJSONCodec = "json"

func encodePolicy(n *flowgraph.Node) ([]byte, error) {
	p := StoredPolicy{
		MaxReclaims: MaxReclaims(n),
		StartMS:     n.StartToClose.Milliseconds(),
		HeartbeatMS: n.HeartbeatTimeout.Milliseconds(),
		Cases:       storedCases(n),
	}
	if n.Wait == nil {
		p.Input = n.EncodeInput()
	}
	switch {
	case n.Map != nil:
		p.Child = &StoredChild{MaxItems: n.Map.MaxItems, AtOnce: n.Map.AtOnce, Outcomes: n.Map.Outcomes}
		if n.Sub != nil {
			p.Child.Flow = n.Sub.Name
		}
	case n.Loop != nil:
		p.Child = &StoredChild{Flow: n.Sub.Name, MaxTurns: n.Loop.MaxTurns}
	case n.Expand != nil:
		p.Child = &StoredChild{Expand: true}
	case n.Sub != nil:
		p.Child = &StoredChild{Flow: n.Sub.Name}
	}
	if n.Codec != StoredJSONCodec {
		p.Codec = n.Codec
	}
	if n.Retry.Retries() > 0 {
		p.Retry = &storedRetry{n.Retry.Retries(), storedBackoff{
			"exponential", n.Retry.First.Milliseconds(), n.Retry.Max.Milliseconds(), n.Retry.Factor,
			n.Retry.JitterPermille,
		}, n.RetryRules.Only, n.RetryRules.Except, n.RetryRules.Within.Milliseconds()}
	}
	if n.KeepFrames > 0 {
		p.Stream = &storedStream{n.KeepFrames}
	}
	if len(n.Capabilities) > 0 {
		p.Routing = &storedRouting{n.Capabilities}
	}
	data, err := activity.JSON{}.Encode(p) // which leaves the bytes of constants as they are
	if err != nil {
		return nil, fmt.Errorf("node %s: policy: %w", n.Name, err)
	}
	return data, nil
}

// NodePlan is the part of an execution's policy document that a worker needs.
type NodePlan struct {
	codec        string
	StartToClose time.Duration
	Heartbeat    time.Duration
	Input        *flowgraph.Expr // nil: the execution has its own payload
	Child        *StoredChild    // nil: the execution runs an activity
	Cases        *StoredCases    // nil: the result of the activity is the result of the node
}

// DecodePolicy decodes a policy document. Without one, the plan has no timeouts and the JSON codec.
func DecodePolicy(data []byte) (NodePlan, error) {
	plan := NodePlan{codec: StoredJSONCodec}
	if len(data) == 0 {
		return plan, nil
	}
	var p StoredPolicy
	if err := json.Unmarshal(data, &p); err != nil {
		return plan, fmt.Errorf("policy of the execution: %w", err)
	}
	if p.Codec != "" {
		plan.codec = p.Codec
	}
	plan.Child, plan.Cases = p.Child, p.Cases
	plan.StartToClose = time.Duration(p.StartMS) * time.Millisecond
	plan.Heartbeat = time.Duration(p.HeartbeatMS) * time.Millisecond
	if len(p.Input) > 0 {
		input, err := flowgraph.DecodeInput(p.Input, plan.codec)
		if err != nil {
			return plan, err
		}
		plan.Input = &input
	}
	return plan, nil
}

const (
	// maxPlans bounds the plans that a worker keeps.
	maxPlans = 256
	// maxKeptPolicy is the largest policy document (bytes) whose plan is kept: a larger one holds constants, which
	// differ.
	maxKeptPolicy = 4 << 10
)

// PlanCache keeps decoded policies: the executions of a node have the same policy in all runs. The plans are shared and
// must not be changed. The zero value is empty. It is safe for concurrent use.
type PlanCache struct {
	mu       sync.RWMutex
	byPolicy map[string]NodePlan
}

// Decode is [DecodePolicy] with a cache.
func (c *PlanCache) Decode(policy []byte) (NodePlan, error) {
	if len(policy) > maxKeptPolicy {
		return DecodePolicy(policy)
	}
	c.mu.RLock()
	plan, known := c.byPolicy[string(policy)]
	c.mu.RUnlock()
	if known {
		return plan, nil
	}
	plan, err := DecodePolicy(policy)
	if err != nil {
		return plan, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPolicy == nil || len(c.byPolicy) >= maxPlans {
		c.byPolicy = make(map[string]NodePlan)
	}
	c.byPolicy[string(policy)] = plan
	return plan, nil
}

// DefaultRetention is how long a run is kept after its end where neither the flow nor the engine sets another time.
const DefaultRetention = 7 * 24 * time.Hour

// RetentionOf returns the stored form of a run's retention, from the retention of its flow and the engine's default:
// one time in milliseconds for all outcomes, or one for each, separated by commas. A negative time means for ever, and
// so does "".
func RetentionOf(engine, own flowgraph.Keep) string {
	times := make([]int64, 0, 8)
	for _, outcome := range flowgraph.Outcomes() {
		keep := own.For(outcome)
		if keep == 0 {
			keep = engine.For(outcome)
		}
		switch {
		case keep == 0:
			keep = DefaultRetention
		case keep < 0:
			keep = -time.Millisecond
		}
		times = append(times, keep.Milliseconds())
	}
	if slices.Equal(times[1:], times[:len(times)-1]) {
		return strings.TrimPrefix(strconv.FormatInt(times[0], 10), "-1")
	}
	texts := make([]string, len(times))
	for i := range times {
		texts[i] = strconv.FormatInt(times[i], 10)
	}
	return strings.Join(texts, ",")
}

// encodedRetention is the stored form of a retention, under the default of an engine.
type encodedRetention struct {
	engine flowgraph.Keep
	text   string
}

// retention is RetentionOf for the runs of the flow.
func (c *CompiledFlow) retention(engine flowgraph.Keep) string {
	if last := c.kept.Load(); last != nil && last.engine == engine {
		return last.text
	}
	text := RetentionOf(engine, c.Graph.Keep)
	c.kept.Store(&encodedRetention{engine, text})
	return text
}

// keptForLessThan reports whether a run with a stored retention may be purged so soon after its end.
func keptForLessThan(retention string, d time.Duration) bool {
	for text := range strings.SplitSeq(retention, ",") {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 && ms < d.Milliseconds() {
			return true
		}
	}
	return false
}
