// Package waittest tests waitpoints, signals and timers on every engine: who may signal, which signal a wait takes, how waits are found, and who wakes the waiter.
package waittest
