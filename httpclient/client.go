package httpclient

//go:generate go run ./internal/methods

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpcall"
)

// ErrInvalid matches errors about the address of a server or an argument that cannot be sent.
var ErrInvalid = httpcall.ErrInvalid

// Config configures a client. The zero value suits a server without logins.
type Config struct {
	// Token is a bearer token. Defaults to none.
	Token string
	// HTTPClient sends the requests. It must not limit the time of a whole request, which would end streams. Defaults
	// to http.DefaultClient.
	HTTPClient *http.Client
}

// Client calls one server. It is safe for concurrent use and needs no closing.
//
// A refusal by the server is an *api.Problem, for errors.As; its Code is the kind of the refusal. An error that matches
// ErrInvalid is about an argument.
//
// A method that follows something yields events as they happen, until the stream ends or the context does. It connects
// again where a connection was lost, after the last event that it has yielded, so that none is missing and none is
// yielded twice. An error ends the sequence: an *api.Problem that is not retryable, such as one with the code
// events_lost.
type Client struct{ caller *httpcall.Caller }

// New returns a client of the server at an address such as "https://host:8080" or "https://host/path". The error
// matches ErrInvalid for any other text. No connection is made.
func New(address string, config Config) (*Client, error) {
	caller, err := httpcall.New(address, config.Token, cmp.Or(config.HTTPClient, http.DefaultClient))
	if err != nil {
		return nil, err
	}
	return &Client{caller}, nil
}

// Internal returns the part of the client that other packages of this project use.
func (c *Client) Internal() *httpcall.Caller { return c.caller }

// Code returns the code of the api.Problem in an error; empty if it has none.
func Code(err error) string {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		return ""
	}
	return problem.Code
}

// part returns a reply, for a method that returns a part of it; the zero value with an error.
func part[Out any](out *Out, err error) (Out, error) {
	if err != nil {
		var none Out
		return none, err
	}
	return *out, nil
}
