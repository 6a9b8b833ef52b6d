package api

import "encoding/json"

// ForkRunInput selects the nodes that a fork runs again.
type ForkRunInput struct {
	RunName
	Body struct {
		ID      string                     `json:"id,omitempty" doc:"Id of the fork; a random one if it is absent."`
		From    []string                   `json:"from,omitempty" doc:"Nodes that run again, with all that depends on them."`
		Input   json.RawMessage            `json:"input,omitempty" doc:"Another input."`
		Results map[string]json.RawMessage `json:"results,omitempty" doc:"Results of nodes, instead of their results in the run."`
		Tags    map[string]string          `json:"tags,omitempty"`
	}
}

// ExportedRun is a run as a file for package runcheck: each line is a part of it.
type ExportedRun struct {
	Lines []json.RawMessage `json:"lines"`
}
