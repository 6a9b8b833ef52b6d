// Package startplan lists the calls by which an engine gets a run, without an engine.
package startplan
