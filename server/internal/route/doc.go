// Package route serves the operations of the HTTP API over HTTP. It is the only package that knows the library for
// routes, validation and the OpenAPI document.
package route
