package engine

import (
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// FlowSubmission is a flow as a backend without stored graphs creates it: all of it, or one chunk of a large one.
type FlowSubmission struct {
	// Partition is where the call works; its tag is part of every key.
	Partition keyspace.Partition
	FlowID    enginecore.FlowID
	FlowName  string
	RunID     string
	Namespace string
	GraphHash string
	InputHash string
	// Definition: optional.
	Definition []byte
	// Input: optional.
	Input []byte
	// ResultExecutionID: optional.
	ResultExecutionID enginecore.ExecutionID
	// Deadline: optional.
	Deadline time.Duration
	// CreatorIdentity: optional.
	CreatorIdentity string
	// TraceContext: optional.
	TraceContext string
	// Retention: optional.
	Retention string
	// FairKey: optional.
	FairKey   string
	NodeTotal int64
	EdgeTotal int64
	Last      bool
	Tags      []enginerpc.SubmitTag
	Nodes     []SubmissionNode
	Edges     []SubmissionEdge
}

// SubmissionNode is one of the nodes of a submission.
type SubmissionNode struct {
	ExecutionID    enginecore.ExecutionID
	Name           string
	Kind           string
	LaneID         enginecore.LaneID
	Priority       int64
	UsesFlowInput  bool
	InputCount     int64
	UpstreamCount  int64
	Capabilities   string
	Policy         []byte
	Tags           []byte
	Delay          time.Duration
	StartTimeout   time.Duration
	AttemptTimeout time.Duration
	// Wait: optional.
	Wait []byte
	// Join is the policy of the edges to the node, see submit; empty if it waits for all of them.
	Join string
}

// SubmissionEdge is one of the edges of a submission.
type SubmissionEdge struct {
	EdgeID                enginecore.EdgeID
	UpstreamExecutionID   enginecore.ExecutionID
	DownstreamExecutionID enginecore.ExecutionID
	DependencyKind        string
	InputName             string
}
