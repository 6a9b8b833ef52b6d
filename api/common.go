package api

// Paging are the parameters of a list.
type Paging struct {
	Cursor string `query:"cursor" doc:"Where the page begins; empty for the first page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items of a page."`
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
