// Package storm tests the whole: random flows, run by processes that are killed without warning, on servers that are
// killed and networks that lose and hold back what is sent. Afterwards every run has ended or waits for something, every
// result follows from its inputs, and the keyspace is in order.
//
// FLOWFABRIC_SOAK makes a storm last three minutes, or a duration of choice; FLOWFABRIC_SEED repeats its choices.
package storm
