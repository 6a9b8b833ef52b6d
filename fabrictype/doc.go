// Package fabrictype has the data that programs get from an engine: published flows; events, attempts, logs and values
// of runs; workers, findings, bulk jobs and the audit log. It also has the states, outcomes and kinds of all records.
//
// The types are plain structs and typed strings without behavior. Package runtime returns them, the HTTP API sends them
// as JSON, and package httpclient decodes them again, so a program handles a run in the same way wherever it comes
// from. The package imports the standard library only.
//
// # States and kinds
//
// States, outcomes and kinds are typed strings with constants. A newer engine may have further ones, so a program
// handles texts that it does not know. The JSON has the texts of the constants.
//
// # Times
//
// Times are by the engine's clock unless the comment of a field names another one. The zero time means that the time
// does not apply or is not known, and the JSON omits it.
//
// # Ids
//
// Ids of runs, executions, waits and workers are texts. Package enginecore has types for those that its functions take:
//
//	execution, err := admin.Execution(ctx, enginecore.ExecutionID(node.ExecutionID))
package fabrictype
