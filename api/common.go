package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"net/url"
)

// Values is a query as parameters of the URL, in addition to the parameters that the input names. Operation.Query names
// the query.
type Values = url.Values

// Empty is the reply of operations that return nothing.
type Empty struct{}

// Events is a page of a stream, the reply to a request that does not accept server-sent events.
type Events[T any] struct {
	Items []T `json:"items"`
	// Next continues after the last item.
	Next string `json:"next,omitempty" doc:"Cursor after the last item."`
	// End reports that nothing follows.
	End bool `json:"end,omitempty" doc:"Nothing follows."`
}

// Paging are the parameters of a list.
type Paging struct {
	Cursor string `query:"cursor" doc:"Where the page begins; empty for the first page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items of a page."`
}

// Follow are the parameters of a stream.
type Follow struct {
	After       string              `query:"after" doc:"Cursor after which to begin; empty for the beginning."`
	LastEventID string              `header:"Last-Event-ID" doc:"The same for server-sent events; it takes precedence."`
	Wait        fabrictype.Duration `query:"wait" doc:"How long a request for JSON waits for the first item, at most 30s."`
	Limit       int                 `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items of a page of JSON."`
}

// Cursor returns the cursor after which to begin.
func (f Follow) Cursor() string {
	if f.LastEventID != "" {
		return f.LastEventID
	}
	return f.After
}

// Conditional has the condition under which a change is made.
type Conditional struct {
	IfMatch string `header:"If-Match" doc:"ETag of the state that the change is based on; another state is refused with status 412."`
}

// Problem is the reply to a request that failed (RFC 9457).
type Problem struct {
	Type     string `json:"type" doc:"Always about:blank; code identifies the problem."`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty" doc:"Description of the fault, in English."`
	Instance string `json:"instance,omitempty" doc:"Id of the request, which the server's log has too."`
	// Code identifies the problem for programs.
	Code string `json:"code" doc:"Identifies the problem for programs, such as run_not_found."`
	// Retryable reports whether the same request can succeed later.
	Retryable bool `json:"retryable" doc:"The same request can succeed later."`
	// Errors are all faults of the request.
	Errors []ProblemFault `json:"errors,omitempty"`
}

// ProblemFault is one fault of a request.
type ProblemFault struct {
	// Pointer is the JSON Pointer (RFC 6901) to the part of the body that is wrong; empty for the whole body and for
	// other places.
	Pointer string `json:"pointer,omitempty"`
	// In is the place: path, query, header or body. Name is the parameter of a path, a query or a header.
	In      string `json:"in,omitempty" enum:"path,query,header,body"`
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
}

// Error returns the detail and the faults.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for i, fault := range p.Errors {
		place := fault.Pointer
		if place == "" {
			place = fault.Name
		}
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		if place != "" {
			place += ": "
		}
		text += sep + place + fault.Message
	}
	return text
}
