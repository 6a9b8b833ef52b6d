// Package invariant checks the consistency of a keyspace: that all records, indexes, counters and logs of the engine
// agree. Tests run it after anything that could have gone wrong.
//
//	report, err := invariant.Check(ctx, client, prefix, invariant.Quiescent)
//	require.NoError(t, err)
//	require.NoError(t, report.Err())
//
// It only reads. It knows the keyspace from its documentation and shares no code with the engine, apart from the
// client.
package invariant
