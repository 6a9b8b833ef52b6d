// Package storm is a stress test of the whole system: random flows, run by processes that are killed without warning,
// on servers that are killed and networks that lose and delay data. Afterwards every run has ended or waits for a
// signal, every result follows from its inputs, and the keyspace is consistent.
//
// FLOWFABRIC_SOAK makes a storm last three minutes, or a duration of choice; FLOWFABRIC_SEED repeats its choices.
package storm
