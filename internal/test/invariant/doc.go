// Package invariant checks that a keyspace is in order: that every record, index, counter and log of the engine tells
// the same story. Tests run it after anything that could have gone wrong.
//
//	report, err := invariant.Check(ctx, client, prefix, invariant.Quiescent)
//	require.NoError(t, err)
//	require.NoError(t, report.Err())
//
// It only reads. It knows the keyspace from its documentation and shares no code with the engine, apart from the client.
package invariant
