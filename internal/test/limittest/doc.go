// Package limittest tests limits of running nodes and of starts on every engine: their order, their keys, their changes, and the permits of lost workers.
package limittest
