// Package flows works on flows as a whole: it caches their graphs, detects when all of their members have ended, and
// cancels members.
package flows
