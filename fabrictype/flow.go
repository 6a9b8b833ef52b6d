package fabrictype

import (
	"encoding/json"
	"time"
)

// Flow is a published flow.
type Flow struct {
	Name string `json:"name"`
	// Hash is the hash of its graph, as flow.Definition.Hash returns it.
	Hash string `json:"hash"`
	// Doc is the text of flow.Describe.
	Doc string `json:"doc,omitempty"`
	// Codec is the name of the codec of input and result. Flows with another one than "json" cannot be started by name.
	Codec string `json:"codec"`
	// InputType and ResultType are names of Go types, for display.
	InputType  string `json:"input_type"`
	ResultType string `json:"result_type"`
	// Nodes is how many nodes the graph has.
	Nodes int `json:"nodes"`
	// PublishedAt and PublishedBy are of the last publication that changed anything.
	PublishedAt time.Time `json:"published_at"`
	PublishedBy string    `json:"published_by,omitempty"`
}

// FlowDetail is a published flow with its graph and schemas.
type FlowDetail struct {
	Flow
	// InputSchema and ResultSchema are JSON Schemas of draft 2020-12; nil if they were left out, or for another codec
	// than JSON.
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	ResultSchema json.RawMessage `json:"result_schema,omitempty"`
	// Definition is the stored form of the graph.
	Definition json.RawMessage `json:"definition"`
	// History are the last 50 publications with another hash than the one before, the newest first.
	History []FlowVersion `json:"history"`
}

// FlowVersion is a publication that changed the hash of a flow.
type FlowVersion struct {
	Hash        string    `json:"hash"`
	PublishedAt time.Time `json:"published_at"`
	PublishedBy string    `json:"published_by,omitempty"`
}
