// Package api has the inputs and outputs of the HTTP API of a FlowFabric server that package fabrictype does not have,
// as structs with their JSON forms. The OpenAPI document of the server describes the operations, and package httpclient
// has a method for each of them.
//
// The tag query names the parameter of the URL in which a field is sent; a field with the tag json is a part of the
// body. The tag doc describes a field in the OpenAPI document. Times are RFC 3339 in UTC, durations texts of Go such as
// "1m30s", states the texts of package fabrictype. Errors are a Problem.
//
// Import it to call a server with package httpclient.
package api
