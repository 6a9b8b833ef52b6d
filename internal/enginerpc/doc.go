// Package enginerpc calls the Lua function library of the engine: the connection, keys, the wire form, pipelines, the
// care of the library on the server, and one typed call per function.
//
// Connect takes a rueidis client and gives a Conn. Each library function is a method with a call struct and
// a reply struct, generated from the headers in package lua:
//
//	reply, err := conn.Claim(ctx, enginerpc.ClaimCall{Partition: p, …})
//	if errors.Is(err, errorcode.LeaseExpired) { … }
//
// Payloads are bytes from end to end. Byte slices in replies belong to the caller; byte slices in calls must not
// change until the call has returned.
//
// Replies are decoded strictly: one of another shape is a *enginecore.DecodeError that names function and field. Only
// composite calls may answer with more values than this program knows, because a newer library may add some at the end.
//
// The command "go run ./codegen docs" lists all functions with their keys, arguments, replies and errors.
package enginerpc
