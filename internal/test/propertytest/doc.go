// Package propertytest runs random flows against models while programs, servers and connections are killed and cut, and
// while programs of other versions and other tools work on the same engine.
package propertytest
