package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// FlowStatisticsInput bounds the number of runs that are read.
type FlowStatisticsInput struct {
	Flow string `path:"flow" doc:"Name of the flow."`
	Runs int    `query:"runs" minimum:"1" maximum:"200" default:"50" doc:"Most runs that are read, the newest first."`
}

// FlowStatistics are computed from the last runs of a flow: the engine keeps none.
type FlowStatistics struct {
	Runs     int              `json:"runs" doc:"Runs that were read. Of a flow with many nodes, these are fewer than requested."`
	Since    time.Time        `json:"since,omitzero" doc:"Creation of the oldest one of them."`
	More     bool             `json:"more,omitempty" doc:"There are older runs."`
	Nodes    []NodeStatistics `json:"nodes"`
	Versions []VersionRuns    `json:"versions" doc:"Versions that the runs have, the latest run first."`
}

// NodeStatistics is how a node did.
type NodeStatistics struct {
	Node    string              `json:"node"`
	Ended   int                 `json:"ended" doc:"Runs in which it succeeded or failed."`
	Failed  int                 `json:"failed,omitempty" doc:"Runs in which it failed or expired."`
	Skipped int                 `json:"skipped,omitempty"`
	Retried int                 `json:"retried,omitempty" doc:"Runs in which it took more than one attempt."`
	Median  fabrictype.Duration `json:"median,omitzero" doc:"From its first start to its end, where it ended."`
	Slowest fabrictype.Duration `json:"slowest,omitzero"`
}

// VersionRuns counts the runs of one version of a flow.
type VersionRuns struct {
	Hash string    `json:"hash" doc:"Beginning of the hash of the graph, 32 digits."`
	Runs int       `json:"runs"`
	Open int       `json:"open,omitempty"`
	Last time.Time `json:"last" doc:"Creation of its latest run."`
	// Latest are its latest runs.
	Latest []fabrictype.Run `json:"latest" doc:"Its latest runs, at most 10, the open ones first."`
}
