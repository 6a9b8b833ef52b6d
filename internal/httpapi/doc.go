// Package httpapi is the HTTP API of a FlowFabric server as a table: each operation with its method, path, input,
// output, right and effect.
//
// Every part that uses the API is made from the table: the routes and the OpenAPI document of package server, the
// methods of package httpclient, the tools that the command offers to language models, and the table of rights in the
// documentation.
//
// # Inputs
//
// An input is a struct. The tags path, query and header name the place of a field in the request; the field Body is the
// JSON body. A list is one parameter of the query with commas, or with the option explode one parameter for each
// element. The tag doc describes a field in the OpenAPI document.
//
// Each field is an argument of the method of package httpclient; a struct of package api is one argument, so that an
// operation with many fields has them there.
//
// # Outputs
//
// An output is the JSON body of the reply. The method of package httpclient returns the field of an output of this
// package, and the items of a list that has no pages.
//
// # Streams
//
// An operation of type Stream answers with server-sent events if the request accepts text/event-stream: the id of an
// event is the cursor after which the next request continues (Last-Event-ID), and the event "end" is the last one.
// Otherwise it answers with a JSON page, after at most the time of the parameter wait.
package httpapi
