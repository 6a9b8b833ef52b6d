// Package api is the HTTP API of a FlowFabric server as a table: each operation with its method, path, input, output,
// right and effect, and the JSON forms of its input and output.
//
// Every part that uses the API is made from the table: the routes and the OpenAPI document of package server, the typed
// client of package httpclient, the tools that the command offers to language models, and the table of rights in the
// documentation.
//
// # Inputs
//
// An input is a struct. The tags path, query and header name the place of a field in the request; the field Body is the
// JSON body. A field without such a tag belongs to the body. A list is one parameter of the query with commas, or with
// the option explode one parameter for each element. The tag doc describes a field in the OpenAPI document.
//
// # Outputs
//
// An output is the JSON body of the reply. Times are RFC 3339 in UTC, durations texts of Go such as "1m30s", states the
// texts of package runtime. Errors are a Problem.
//
// # Streams
//
// An operation of type Stream answers with server-sent events if the request accepts text/event-stream: the id of an
// event is the cursor after which the next request continues (Last-Event-ID), and the event "end" is the last one.
// Otherwise it answers with a JSON page, after at most the time of the parameter wait.
//
// Import it to call a server with package httpclient, or to describe its operations.
package api
