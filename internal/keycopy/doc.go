// Package keycopy copies the keys of a deployment as they are: types, values, times of expiry, scores, and the ids of
// streams. It reads and writes by plain commands, which servers of all versions and the embedded engine have, and knows
// nothing of what the keys mean. Between the two ends stand pieces: a key, or a part of a large one.
package keycopy
