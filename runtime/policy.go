package runtime

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// maxReclaims is how often an execution may lose its worker before it fails for good: a node that kills its workers must
// not do so for ever.
const maxReclaims = 5

// storedPolicy is the policy document of an execution. The retry policy, the limit of take-overs and the routing
// requirements are read by the engine, the rest by the worker that runs the node.
type storedPolicy struct {
	Retry       *storedRetry    `json:"retry_policy,omitempty"`
	MaxReclaims int             `json:"max_reclaim_count"`
	Routing     *storedRouting  `json:"routing_requirements,omitempty"`
	Codec       string          `json:"codec,omitempty"`
	StartMS     int64           `json:"start_to_close_ms,omitempty"`
	HeartbeatMS int64           `json:"heartbeat_timeout_ms,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Stream      *storedStream   `json:"stream_policy,omitempty"`
	Child       *storedChild    `json:"child,omitempty"`
}

// storedStream bounds the frames of each attempt, by the engine.
type storedStream struct {
	Retention int `json:"retention_maxlen"`
}

type storedRetry struct {
	MaxRetries int           `json:"max_retries"`
	Backoff    storedBackoff `json:"backoff"`
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

const storedJSONCodec = "json"

func encodePolicy(n *flowgraph.Node) ([]byte, error) {
	p := storedPolicy{
		MaxReclaims: maxReclaims,
		StartMS:     n.StartToClose.Milliseconds(),
		HeartbeatMS: n.HeartbeatTimeout.Milliseconds(),
	}
	if n.Wait == nil {
		p.Input = n.EncodeInput()
	}
	switch {
	case n.Map != nil:
		p.Child = &storedChild{MaxItems: n.Map.MaxItems, AtOnce: n.Map.AtOnce, Outcomes: n.Map.Outcomes}
	case n.Sub != nil:
		p.Child = &storedChild{Flow: n.Sub.Name}
	}
	if n.Codec != storedJSONCodec {
		p.Codec = n.Codec
	}
	if n.Retry.Retries() > 0 {
		p.Retry = &storedRetry{n.Retry.Retries(), storedBackoff{
			"exponential", n.Retry.First.Milliseconds(), n.Retry.Max.Milliseconds(), n.Retry.Factor, n.Retry.JitterPermille,
		}}
	}
	if n.KeepFrames > 0 {
		p.Stream = &storedStream{n.KeepFrames}
	}
	if len(n.Capabilities) > 0 {
		p.Routing = &storedRouting{n.Capabilities}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("node %s: policy: %w", n.Name, err)
	}
	return data, nil
}

// nodePlan is what a worker takes from the policy document.
type nodePlan struct {
	codec        string
	startToClose time.Duration
	heartbeat    time.Duration
	input        *flowgraph.Expr // nil: the execution has a payload of its own
	child        *storedChild    // nil: the execution runs an activity
}

func decodePolicy(data []byte) (nodePlan, error) {
	plan := nodePlan{codec: storedJSONCodec}
	if len(data) == 0 {
		return plan, nil
	}
	var p storedPolicy
	if err := json.Unmarshal(data, &p); err != nil {
		return plan, fmt.Errorf("policy of the execution: %w", err)
	}
	if p.Codec != "" {
		plan.codec = p.Codec
	}
	plan.child = p.Child
	plan.startToClose = time.Duration(p.StartMS) * time.Millisecond
	plan.heartbeat = time.Duration(p.HeartbeatMS) * time.Millisecond
	if len(p.Input) > 0 {
		input, err := flowgraph.DecodeInput(p.Input, plan.codec)
		if err != nil {
			return plan, err
		}
		plan.input = &input
	}
	return plan, nil
}

const (
	// maxPlans bounds the plans that a worker keeps.
	maxPlans = 256
	// maxKeptPolicy is the largest policy document (bytes) whose plan is kept: a larger one holds constants, which differ.
	maxKeptPolicy = 4 << 10
)

// planCache keeps what was decoded: the executions of a node have the same policy in all runs. What it gives is shared and
// must not be changed.
type planCache struct {
	mu       sync.RWMutex
	byPolicy map[string]nodePlan
}

func (c *planCache) decode(policy []byte) (nodePlan, error) {
	if len(policy) > maxKeptPolicy {
		return decodePolicy(policy)
	}
	c.mu.RLock()
	plan, known := c.byPolicy[string(policy)]
	c.mu.RUnlock()
	if known {
		return plan, nil
	}
	plan, err := decodePolicy(policy)
	if err != nil {
		return plan, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPolicy == nil || len(c.byPolicy) >= maxPlans {
		c.byPolicy = make(map[string]nodePlan)
	}
	c.byPolicy[string(policy)] = plan
	return plan, nil
}
