// Package keycopy copies the keys of a deployment as they are: types, values, times of expiry, scores, and the ids of
// streams. It reads and writes by plain commands, which servers of all versions and the embedded engine have, and does
// not interpret the keys. It transfers pieces: a key, or a part of a large one.
package keycopy
