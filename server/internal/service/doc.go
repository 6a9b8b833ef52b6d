// Package service performs the operations of the HTTP API on an engine.
package service
